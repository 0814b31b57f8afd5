"""condense"""
