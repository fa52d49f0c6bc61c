// SPDX-License-Identifier: Apache-2.0

// Package dirlock lets one process at a time write into a directory.
package dirlock

import "errors"

// file is no name of a run or of a worker, see CheckName of internal/results.
const file = ".lock"

// ErrInUse is that another process holds the lock.
var ErrInUse = errors.New("it is in use by another process")
