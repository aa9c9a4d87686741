"""Killing, stopping and cutting everything at random under load, and looking whether anything was booked twice or lost.

A seed makes a script: rounds of steps, each a deed of users (gangs come and go) or a disturbance. The stage performs
the script on a real control plane; when a round is over everything is mended and left to settle, and then the truth,
read from the API server alone, must hold.
"""
