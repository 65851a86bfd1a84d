"""Reading an operator's candidate query and claim: is a claim safe, as far as they tell?

Only `doubt` may be imported by what every run imports; the others load the parser.
"""
