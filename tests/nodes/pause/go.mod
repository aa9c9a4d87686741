module fluence-extender.local/pause

go 1.26.0
