"""The ways to compute attention. Each backend module has two functions:

`refusal(request) -> str | None`: why it cannot serve this request, or None.
`run(request) -> Result`: the output, with weights and log-sum-exp where they were asked for.
"""
