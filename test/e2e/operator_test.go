//go:build e2e

package e2e

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3/vt"
	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// operator looks at the console of a machine as `spore boot` shows it: on a terminal of 80x24 cells, which has a second
// screen for pages (XTerm Control Sequences, 1049).
type operator struct {
	mu           sync.Mutex
	lines, front vt.MockTerm
	page         vt.MockTerm
}

func watch(t *testing.T, c *vm.Console) *operator {
	o := &operator{lines: vt.NewMockTerm(vt.MockOptSize{X: 80, Y: 24}), page: vt.NewMockTerm(vt.MockOptSize{X: 80, Y: 24})}
	o.front = o.lines
	for _, m := range []vt.MockTerm{o.lines, o.page} {
		require.NoError(t, m.Start())
		t.Cleanup(func() { _ = m.Stop() })
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.FollowPages(ctx, o, nil) // It ends with the test or the machine.
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return o
}

// Write does what the driver of a terminal does with the end of a line.
func (o *operator) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := strings.ReplaceAll(string(b), "\n", "\r\n")
	for text != "" {
		i := strings.Index(text, "\x1b[?1049")
		if i < 0 {
			i = len(text)
		}
		if _, err := o.front.Write([]byte(text[:i])); err != nil {
			return 0, err
		}
		if text = text[i:]; text != "" {
			o.front = o.lines
			if text[7] == 'h' {
				o.front = o.page
			}
			text = text[8:]
		}
	}
	return len(b), nil
}

func (o *operator) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for y := range 24 {
		for x := range 80 {
			c := o.front.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C
			if c == "" {
				c = " "
			}
			b.WriteString(c)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (o *operator) sees(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool { return re.MatchString(o.text()) }, bootLimit, 50*time.Millisecond,
		"the terminal does not show %s", pattern)
}
