//go:build !wasm

package setting

// Doc returns a text of the documentation in English and in Chinese. In the artifacts, which show no documentation, it
// returns nothing, and the compiler drops the texts.
func Doc(en, zh string) Words { return Words{EN: en, ZH: zh} }
