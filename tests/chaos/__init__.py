"""Kill, stop and cut everything at random under load, and check whether anything was booked twice or lost.

A seed makes a script: rounds of steps. A step is something that users do (gangs come and go) or a disturbance. The
script is performed on a real control plane. After each round everything is repaired and left to settle. Then the
checks in `truth` must hold, which read the API server alone.
"""
