"""The small learner: a toy model that the project makes itself, so that the first command teaches without a GPU.

``recipe`` writes everything a warm start needs into a folder; the trainer does the training. ``model`` and
``tokenizer`` make the untrained parts, ``copying`` and ``demonstrations`` the data of the two phases.
"""
