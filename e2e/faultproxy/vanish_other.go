//go:build !linux

package faultproxy

import "errors"

func deafen(any, bool) error { return errors.ErrUnsupported }
