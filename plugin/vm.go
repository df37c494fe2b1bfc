package main

import "github.com/warmgate/warmgate/plugin/vm"

// theVM is the state of this VM, nil before the first configuration. The gateway keeps one VM over changes of the
// configuration.
var theVM *vm.VM
