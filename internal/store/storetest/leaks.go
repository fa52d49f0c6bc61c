// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"

	"go.uber.org/goleak"
)

// VerifyTestMain runs the tests of a package and fails if they leave goroutines behind. A client of client-go that is
// closed while it waits for a store to come back lets go of that only after its 5 s to connect.
func VerifyTestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/tikv/client-go/v2/internal/client.(*batchCommandsClient).waitConnReady"))
}
