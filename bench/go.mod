module bourn/bench

go 1.26.0
