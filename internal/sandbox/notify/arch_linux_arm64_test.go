package notify

var archRows []row
