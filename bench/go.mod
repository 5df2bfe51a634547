module bourn/bench

go 1.26.0

require (
	bourn v0.0.0
	github.com/cedar-policy/cedar-go v1.9.1
)

require (
	github.com/bmatcuk/doublestar/v4 v4.10.4 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	golang.org/x/exp v0.0.0-20220921023135-46d9e7742f1e // indirect
	mvdan.cc/sh/v3 v3.14.1 // indirect
)

replace bourn => ../
