// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestShare(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"0": 0, "0.01": 0.01, "1%": 0.01, "0.1 %": 0.001, "100%": 1, "1": 1} {
		var v *float64
		if err := (&share{&v}).Set(text); err != nil || *v != want {
			t.Errorf("%q is %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "%", "-1%", "101%", "1.5", "NaN", "x"} {
		var v *float64
		if err := (&share{&v}).Set(text); err == nil || v != nil {
			t.Errorf("%q is taken as %g", text, *v)
		}
	}
}
