package main

// tooLarge lists the packages that were beyond the limits of shape.go before these were held, with what they have. A
// row may only become less: who makes a package smaller lowers its row.
var tooLarge = map[string]shape{}
