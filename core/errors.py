"""The one exception that is meant for people."""


class BadInput(Exception):
    """Something the person gave cannot be used; the message is one plain sentence that says what and why.

    Pages show it as it is, the command line prints it and ends with code 2. Anything else that is raised
    is a fault of ours and is shown with its traceback.
    """
