// SPDX-License-Identifier: Apache-2.0

// Empty: it lets the compiler accept the function without a body in dial.go.
