// SPDX-License-Identifier: Apache-2.0

package quiet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/store/stream/quiet"
)

// pair returns both ends of a connection; the first is one that a Dialer made.
func pair(tb testing.TB) (dialed net.Conn, accepted *net.TCPConn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	dialed, err = quiet.Dialer(3*time.Second)(tb.Context(), l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { dialed.Close() })
	other, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { other.Close() })
	return dialed, other.(*net.TCPConn)
}

// Whatever is sent arrives, in both directions at once, in pieces of any size, far
// beyond what the system's buffers hold.
func TestTransfer(t *testing.T) {
	dialed, accepted := pair(t)
	random := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	for _, ends := range [][2]net.Conn{{dialed, accepted}, {accepted, dialed}} {
		data := make([]byte, 20<<20)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		sizes := rand.New(rand.NewPCG(3, random.Uint64()))
		wg.Go(func() {
			for rest := data; len(rest) > 0; {
				piece := rest[:min(len(rest), 1+sizes.IntN(1<<sizes.IntN(22)))]
				n, err := ends[0].Write(piece)
				if err != nil || n != len(piece) {
					t.Errorf("wrote %d of %d: %v", n, len(piece), err)
				}
				rest = rest[len(piece):]
			}
		})
		wg.Go(func() {
			got := make([]byte, len(data))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("read something else than was written: %v", err)
			}
		})
	}
	wg.Wait()
}

// Writes of several goroutines do not mix.
func TestConcurrentWrites(t *testing.T) {
	dialed, accepted := pair(t)
	const size, each = 100_000, 20
	var wg sync.WaitGroup
	for b := range byte(4) {
		wg.Go(func() {
			for range each {
				if _, err := dialed.Write(bytes.Repeat([]byte{b}, size)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := make([]byte, size)
	for range 4 * each {
		if _, err := io.ReadFull(accepted, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.Repeat(got[:1], size)) {
			t.Fatal("the writes of two goroutines were mixed")
		}
	}
	wg.Wait()
}

// The ends of a connection are told as package net tells them.
func TestEnds(t *testing.T) {
	one := make([]byte, 1)
	t.Run("other side closes", func(t *testing.T) {
		dialed, accepted := pair(t)
		accepted.Close()
		if n, err := dialed.Read(one); n != 0 || err != io.EOF {
			t.Errorf("read %d, %v", n, err)
		}
	})
	t.Run("other side resets", func(t *testing.T) {
		dialed, accepted := pair(t)
		if err := accepted.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		accepted.Close()
		var failure *net.OpError
		if _, err := dialed.Read(one); !errors.As(err, &failure) || failure.Op != "read" || failure.Addr == nil {
			t.Errorf("read: %v", err)
		}
		if _, err := dialed.Write(one); !errors.As(err, &failure) || failure.Op != "write" {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("closed while reading", func(t *testing.T) {
		dialed, _ := pair(t)
		ended := make(chan error)
		go func() {
			_, err := dialed.Read(one)
			ended <- err
		}()
		dialed.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := dialed.Write(one); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		dialed, _ := pair(t)
		if err := dialed.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := dialed.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		n, err := dialed.Write(make([]byte, 64<<20)) // nobody reads it
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write of %d bytes: %v", n, err)
		}
	})
	t.Run("nothing to read or write", func(t *testing.T) {
		dialed, _ := pair(t)
		if n, err := dialed.Read(nil); n != 0 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		if n, err := dialed.Write(nil); n != 0 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if c, err := quiet.Dialer(time.Second)(ctx, "127.0.0.1:1"); err == nil {
			c.Close()
			t.Error("connected")
		}
	})
}

func TestNoGarbage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is package net's")
	}
	dialed, accepted := pair(t)
	go io.Copy(accepted, accepted)
	data := make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := dialed.Write(data); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(dialed, data); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("a message and its answer allocate %v times", n)
	}
}
