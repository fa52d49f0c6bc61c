// SPDX-License-Identifier: Apache-2.0

//go:build unix

package plainfile

import "golang.org/x/sys/unix"

// nonblock keeps the opening of a pipe from waiting for its writer.
const nonblock = unix.O_NONBLOCK
