"""The local web app: the commands of Tulle for people who do not type commands.

It has no logic of its own: a page shows files of one folder, a button runs a command of ``tulle``
in a process of its own, and what the command writes is the next page. So the command line can go
on where the app stopped, and a crash or a closed tab loses nothing.

``guard`` decides who may ask, ``study`` knows the files, ``jobs`` starts commands (``worker`` is
the process that runs them), ``pages`` answers requests, ``server`` listens.
"""
