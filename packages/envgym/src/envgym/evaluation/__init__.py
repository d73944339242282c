"""Playing the tasks of an env with a policy that speaks, and counting what it came to.

For a quick look at a model behind an OpenAI-compatible endpoint, or at a scripted policy. It knows texts only:
tokens, and calls that never return, are the generator's business.
"""
