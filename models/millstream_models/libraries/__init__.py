"""Models of River and scikit-learn, selected in a config by the name of their class."""
