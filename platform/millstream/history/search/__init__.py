"""The search for the options of a model on a history: candidates, their judgement, and the training of the best."""
