package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func seconds2(cpu, wall float64) *Usage {
	return &Usage{CPU: time.Duration(cpu * float64(time.Second)), Wall: time.Duration(wall * float64(time.Second)), Memory: 64 << 20}
}

func TestTable(t *testing.T) {
	got := table([]Row{
		{What: "cold", Ours: seconds2(10, 6), Mkosi: seconds2(50, 40), Floor: seconds2(8, 4), Goals: coldGoals(*seconds2(10, 0), *seconds2(50, 0), *seconds2(8, 0))},
		{What: "nothing", Ours: seconds2(0.2, 0.3), Goals: within(0.1)(*seconds2(0.2, 0), Usage{}, Usage{})},
		{What: "next boot", Ours: seconds2(20, 21)},
	})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	require.Len(t, lines, 6, "a head, its rule, two goals of one row, and two more rows")
	for _, l := range lines {
		require.Equal(t, strings.Count(lines[1], "|"), strings.Count(l, "|"), l)
	}
	require.Equal(t, "| cold | 10.0 | 6.00 | 50.0 | 40.0 | 8.00 | 5.00 | 1.25 | ≤ 1.5 × floor | 1.25 | yes |", lines[2])
	require.Equal(t, "|  |  |  |  |  |  |  |  | ≤ 1/4 × mkosi | 0.20 | yes |", lines[3])
	require.Equal(t, "| nothing | 0.20 | 0.30 | – | – | – | – | – | ≤ 0.1 CPU-s | 0.20 | **no** |", lines[4])
	require.Equal(t, "| next boot | 20.0 | 21.0 | – | – | – | – | – |  |  |  |", lines[5])
}

func TestThePageSaysWhatWasMeasuredAndWhatWasNot(t *testing.T) {
	dir := t.TempDir()
	p := &page{
		machine: Machine{CPU: "Emulated 3000", Cores: 2, MemoryMiB: 4096, Go: "1.26.8", QEMU: "7.2.17", Mkosi: "mkosi 25.3"},
		command: "make bench ROUNDS=1 SKIP=boots", rounds: 1, skipped: map[string]bool{"boots": true},
		rows:  []Row{{What: coldRow, Ours: &Usage{CPU: 10 * time.Second, Memory: 200 << 20, Apart: 7 * time.Second}}},
		scale: []Scale{{Nodes: 10, Detect: time.Millisecond}, {Nodes: 100, Detect: 2 * time.Millisecond}},
	}
	path := filepath.Join(dir, "docs", "performance.md")
	require.NoError(t, p.write(path, filepath.Join(dir, "docs", "pictures")))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{
		"`make bench ROUNDS=1 SKIP=boots`", "in turn, once,", "Emulated 3000, 2 cores", "4096 MiB", "| Go | 1.26.8 |", "| QEMU | 7.2.17 |", "| mkosi | 25.3,",
		"| left out | boots |", "| ≤ 300 MiB | 200 | yes |", "its 7.00 CPU seconds are not in the row", "| cold: packages cached, nothing else | 200 | – | – |",
		"(pictures/scale-chart.svg)",
	} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), bootPicture, "no boot was drawn")
	require.FileExists(t, filepath.Join(dir, "docs", "pictures", scalePicture))
	require.NoFileExists(t, filepath.Join(dir, "docs", "pictures", bootPicture))
}

func TestTheCommandCanBeRepeated(t *testing.T) {
	require.Equal(t, "make bench", repeat(flags{rounds: 3}))
	require.Equal(t, "make bench ROUNDS=5 FULL=configs SKIP=mkosi", repeat(flags{rounds: 5, full: "configs", skip: "mkosi"}))
}

func TestSkip(t *testing.T) {
	got, err := parseSkip("mkosi, boots")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"mkosi": true, "boots": true}, got)
	_, err = parseSkip("mkosy")
	require.ErrorContains(t, err, "mkosi, floor, builds, boots, scale")
}
