package pods

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/send"
)

// TestWhateverHappensEachLineComesOnce has a container write, and its files put aside and compressed, at random, while
// the reader ends at random with or without the acknowledgement of the store. Whoever asks tells what is twice by its
// cursor.
func TestWhateverHappensEachLineComesOnce(t *testing.T) {
	for round := range 3 {
		seed := uint64(time.Now().UnixNano()) + uint64(round)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			by := rand.New(rand.NewPCG(seed, 0))
			n := newNode(t)
			n.open()
			written, stamps, restart := 0, 0, 0
			byCursor := map[string]string{}
			take := func(b *send.Batch) {
				for _, e := range b.Entries {
					cursor, _ := e.Get(send.CursorField)
					text, _ := e.Get("MESSAGE")
					if before, twice := byCursor[cursor]; twice {
						require.Equal(t, before, text, "a cursor names one line")
					}
					byCursor[cursor] = text
				}
			}
			live := func() string { return fmt.Sprintf("%s/%d.log", web, restart) }
			aside := map[string]bool{}
			for range 120 {
				switch by.IntN(8) {
				case 0, 1, 2:
					var lines []string
					for range 1 + by.IntN(20) {
						written++
						text := fmt.Sprintf("line %d.", written)
						if by.IntN(4) == 0 {
							lines = append(lines, "stdout P "+text[:3], "stdout F "+text[3:])
							continue
						}
						lines = append(lines, "stdout F "+text)
					}
					n.write(live(), lines...)
				case 3:
					if _, err := os.Stat(filepath.Join(n.dir, live())); err == nil {
						stamps++
						to := live() + "." + time.Date(2026, 11, 26, 12, 0, stamps, 0, time.UTC).Format("20060102-150405")
						n.rename(live(), to)
						aside[to] = true
						n.write(live(), "stderr F rotated")
					}
				case 4:
					for name := range aside {
						n.zip(name)
						delete(aside, name)
						break
					}
				case 5:
					if b := n.next(); b != nil {
						take(b)
						require.NoError(t, n.r.Done(*b))
					}
				case 6: // The store is away, or the power: what was read is not acknowledged.
					n.next()
					n.close()
					n.open()
				case 7:
					if by.IntN(4) == 0 {
						restart++
					}
				}
			}
			n.close()
			n.open()
			for b := n.next(); b != nil; b = n.next() {
				take(b)
				require.NoError(t, n.r.Done(*b))
			}
			got := map[string]int{}
			for _, text := range byCursor {
				got[text]++
			}
			for i := 1; i <= written; i++ {
				require.Equal(t, 1, got[fmt.Sprintf("line %d.", i)], "line %d of %d", i, written)
			}
			for text := range got {
				require.True(t, strings.HasPrefix(text, "line ") || text == "rotated", text)
			}
			require.Zero(t, malformed(n.s))
			require.Zero(t, lostFiles(n.s))
		})
	}
}
