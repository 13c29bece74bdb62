"""Shadows: registered versions that enter a running pipeline, learn beside its model, and may replace the model.

positions.py   the parts of the stream that a version has not learned
learner.py     catches up: learns these parts from the log, or counts them
process.py     the process in which a version catches up
messages.py    the messages between that process and the run
catch_up.py    that process, as the run sees it
rule.py        compares a shadow with its champion
notes.py       shadow.json: what has to survive a crash, and the progress for `millstream status`
step.py        the versions of one step: its shadow, its champion, and the alias
status.py      the versions and accuracies for `millstream status`
presence.py    refuses a config without a shadow that an epoch needs
watch.py       asks the registry in the background, and puts the events of all steps into the epochs
"""
