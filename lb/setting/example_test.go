package setting_test

import (
	"fmt"

	"github.com/warmgate/warmgate/lb/setting"
)

// A policy describes a key beside the settings that it is decoded into.
func Example() {
	type settings struct{ Choices int }
	key := setting.Key{
		Name: "power_of_two.choices", Type: setting.Integer, Min: 1, Max: 16, Default: "2",
		Meaning: setting.Doc("Endpoints that are compared", "比较的端点数"),
		Field:   func(s any) any { return &s.(*settings).Choices },
	}
	var s settings
	*key.Field(&s).(*int) = 3
	fmt.Println(key.Name, key.TypeName().EN, s.Choices)
	// Output: power_of_two.choices integer 3
}
