// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package plainfile

// nonblock is nothing where no file can be a pipe.
const nonblock = 0
