"""The field's older techniques, to compare with: randomisation, rotation, generalisation.

They are what the survey of paper 002 lists next to condensation. Each takes any table, gives back
the same kind, and can be audited like every other release.
"""
