package send

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlaceOfACursor(t *testing.T) {
	for cursor, want := range map[string]place{
		"s=a1;i=ff;b=b1;m=1f;t=2;x=3":   {"a1", "b1", 255, 31},
		"s=a1;i=FF;b=b1":                {"a1", "b1", 255, 0},
		"":                              {},
		"file=7;offset=12":              {},
		"s=a1;i=0;b=b1":                 {},
		"s=a1;i=1":                      {},
		"s=a1;b=b1":                     {},
		"i=1;b=b1":                      {},
		"s=a1;i=10000000000000000;b=b1": {},
		"s=a1;i=1;b=b1;m=x":             {},
		"s=a1;i=x;b=b1":                 {},
		"s=" + strings.Repeat("a", 33) + ";i=1;b=b1": {},
		"s=a1;i=1;b=" + strings.Repeat("b", 1<<20):   {},
	} {
		got, ok := placeOf(cursor)
		require.Equal(t, want != place{}, ok, cursor)
		require.Equal(t, want, got, cursor)
	}
}

func FuzzPlaceOf(f *testing.F) {
	f.Add("s=a1;i=ff;b=b1;m=1;t=2;x=3")
	f.Add(";;=;s=;i=-1")
	f.Fuzz(func(t *testing.T, cursor string) {
		if p, ok := placeOf(cursor); ok {
			again, ok := placeOf(fmt.Sprintf("s=%s;i=%x;b=%s;m=%x", p.id, p.number, p.boot, p.up))
			require.True(t, ok)
			require.Equal(t, p, again)
		}
	})
}

func TestMarks(t *testing.T) {
	var m marks
	take := func(id, boot string, number uint64) (gap uint64) {
		p := place{id: id, boot: boot, number: number}
		require.False(t, m.has(p))
		gap = m.gap(p)
		m = m.with(p)
		require.True(t, m.has(p))
		return gap
	}
	require.Zero(t, take("s", "b1", 100), "nobody knows what was before the first one")
	require.Zero(t, take("s", "b1", 101))
	require.EqualValues(t, 8, take("s", "b1", 110))
	require.True(t, m.has(place{id: "s", boot: "b1", number: 50}))
	require.Zero(t, take("s", "b2", 105), "the disk did not have 105 to 110 when the power was cut")
	require.Zero(t, take("s", "b2", 106))
	require.True(t, m.has(place{id: "s", boot: "b1", number: 110}))
	require.Zero(t, take("other", "b2", 1))
	require.EqualValues(t, 3, take("s", "b3", 110), "of the start before, three were never read")
	require.Zero(t, m.gap(place{id: "new", boot: "b4", number: 500, up: begins}), "the journal has this start from its begin on")
	require.EqualValues(t, 1, m.gap(place{id: "new", boot: "b4", number: 9000, up: begins + 1}), "nobody knows how many")
	require.Zero(t, marks{}.gap(place{id: "new", boot: "b4", number: 9000, up: begins + 1}), "the store is new")
	for i := range 100 {
		take(fmt.Sprint(i), "b4", 1)
	}
	require.Len(t, m, maxMarks)
}

func TestPositionsAreOnTheDiskAfterAWhile(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "store-1", "x.json")
	var said []string
	open := func() *Positions[int] {
		return OpenPositions[int](path, clock, func(s string) { said = append(said, s) })
	}
	p := open()
	_, has := p.Get("a")
	require.False(t, has)
	require.NoError(t, p.Set("a", 1))
	require.NoFileExists(t, path)
	now = now.Add(saveAfter)
	require.NoError(t, p.Set("a", 2))
	require.Equal(t, map[string]int{"a": 2}, open().All())
	require.NoError(t, p.Set("b", 3))
	require.NoError(t, p.Delete("a"))
	require.Equal(t, map[string]int{"a": 2}, open().All(), "not each change is written")
	require.NoError(t, p.Save())
	require.Equal(t, map[string]int{"b": 3}, open().All())
	require.Empty(t, said)

	for _, text := range []string{"{", "null", `{"a":"x"}`, strings.Repeat("x", maxPositions+1)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.Empty(t, open().All())
	}
	require.Len(t, said, 3, "%v", said)
	require.Contains(t, said[0], "what is sent already is not known, and is sent again")
}

func TestWhatJournaldSaysThatItLost(t *testing.T) {
	for name, c := range map[string]struct {
		by, id, text, dropped string
		count                 uint64
		why                   string
	}{
		"a unit that wrote too much":        {"driver", messageDropped, "Suppressed 5 messages from a.service", "7", 7, lostRate},
		"without the field":                 {"driver", messageDropped, "Suppressed 5 messages from a.service", "", 5, lostRate},
		"a text that says nothing":          {"driver", messageDropped, "hello", "", 0, lostRate},
		"the kernel":                        {"driver", messageMissed, "Missed 12 kernel messages", "", 12, lostKernel},
		"a count that is none":              {"driver", messageMissed, "Missed -1 kernel messages", "", 0, lostKernel},
		"a program that says so":            {"journal", messageDropped, "Suppressed 5 messages from a.service", "7", 0, ""},
		"something else that journald says": {"driver", "x", "Suppressed 5 messages from a.service", "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := entryOf(1, field("_TRANSPORT", c.by), field("MESSAGE_ID", c.id))
			e[2] = field("MESSAGE", c.text)
			if c.dropped != "" {
				e = append(e, field("N_DROPPED", c.dropped))
			}
			count, why := lost(e)
			require.Equal(t, c.count, count)
			require.Equal(t, c.why, why)
		})
	}
}
