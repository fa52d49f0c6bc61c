// SPDX-License-Identifier: Apache-2.0

package liveview

import (
	"os"
	"strings"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"golang.org/x/term"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/printable"
)

// screen is a view on a terminal. Its program runs from the first Show to Close.
type screen struct {
	in, out *os.File // in is nil where there are no keys
	control Control

	mu   sync.Mutex
	live *live // nil: nothing is shown
}

// live is a program that has the terminal.
type live struct {
	program *tea.Program
	before  *term.State   // of the terminal
	latest  chan tea.Msg  // the frame that the program has not seen yet: a newer one replaces it
	said    chan string   // lines that stay
	ended   chan struct{} // the program has
	done    sync.WaitGroup
}

func (v *screen) Show(s *coordinator.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.live == nil {
		v.live = v.start(s)
		return
	}
	select {
	case <-v.live.latest:
	default:
	}
	v.live.latest <- s // Show alone sends, so there is room
}

func (v *screen) Say(text string) {
	text = printable.Text(text)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.live == nil {
		_, _ = v.out.WriteString(text + "\n")
		return
	}
	select {
	case v.live.said <- text:
	default: // the terminal takes nothing
	}
}

func (v *screen) start(s *coordinator.Snapshot) *live {
	options := []tea.ProgramOption{tea.WithOutput(v.out), tea.WithoutSignalHandler(), tea.WithFPS(10), tea.WithInput(nil)}
	if v.in != nil {
		options = append(options, tea.WithInput(v.in))
	}
	l := &live{
		program: tea.NewProgram(&model{snapshot: s, interactive: v.in != nil, control: v.control}, options...),
		latest:  make(chan tea.Msg, 1),
		said:    make(chan string, 64),
		ended:   make(chan struct{}),
	}
	if v.in != nil {
		l.before, _ = term.GetState(int(v.in.Fd()))
	}
	l.done.Go(func() {
		defer close(l.ended)
		_, _ = l.program.Run() // a terminal that is gone is no reason to end a load
	})
	l.done.Go(func() {
		for {
			select {
			case s := <-l.latest:
				l.program.Send(s)
			case text := <-l.said:
				l.program.Send(line(text))
			case <-l.ended:
				return
			}
		}
	})
	return l
}

func (v *screen) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.live
	if l == nil {
		return
	}
	v.live = nil
	go l.program.Quit() // it waits for the program, which may wait for the terminal
	select {
	case <-l.ended:
		l.done.Wait()
		for len(l.said) > 0 {
			_, _ = v.out.WriteString(<-l.said + "\n")
		}
	case <-time.After(patience):
		// A write to a terminal that is stopped cannot be called off: the program is left to the end
		// of the process, but not the terminal to its modes.
		if l.before != nil {
			_ = term.Restore(int(v.in.Fd()), l.before)
		}
	}
}

// line is text that stays above the frame.
type line string

// model is what bubbletea draws.
type model struct {
	snapshot      *coordinator.Snapshot
	interactive   bool
	helping       bool
	control       Control
	width, height int
}

func (m *model) Init() tea.Cmd { return nil }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case *coordinator.Snapshot:
		m.snapshot = msg
	case line:
		return m, tea.Println(string(msg))
	case tea.WindowSizeMsg:
		resized := m.width != 0
		m.width, m.height = msg.Width, msg.Height
		if resized { // the terminal may have wrapped what was there
			return m, tea.ClearScreen
		}
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "ctrl+c":
			m.control.Stop()
		case "d":
			if m.snapshot.Alone {
				m.control.Leave()
			}
		case "+", "=":
			m.control.Scale(1.1)
		case "-", "_":
			m.control.Scale(1 / 1.1)
		case "?", "h":
			m.helping = !m.helping
		}
	}
	return m, nil
}

func (m *model) View() string {
	// The last line stays free for the cursor.
	return strings.Join(frame(m.snapshot, m.width, m.height-1, m.interactive, m.helping), "\n") + "\n"
}
