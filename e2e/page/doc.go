// Package page tests the page of internal/live/page in a real browser: that it shows what its frames say, to everybody.
package page
