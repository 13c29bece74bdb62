"""Versions of models in the registry of MLflow: as artefacts that predict raw text, and by name, version and alias."""
