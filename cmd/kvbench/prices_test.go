// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/kvbench/kvbench/internal/prices"
)

// What the help shows is a file of prices.
func TestPricesExample(t *testing.T) {
	t.Parallel()
	if p, err := prices.Parse([]byte(pricesExample)); err != nil || p.Clients == 0 {
		t.Errorf("%+v, %v", p, err)
	}
}
