package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/test/sitebench"
)

// Row is a row of the page's table: what was done, by whom at what cost, and what it is to cost.
type Row struct {
	What string
	// Ours, Mkosi and Floor are medians; nil is a contender that did not take part.
	Ours, Mkosi, Floor *Usage
	Goals              []Goal
}

// table is the rows as a table of Markdown. A row with several goals is continued below.
func table(rows []Row) string {
	var b strings.Builder
	b.WriteString("| what | Spore CPU s | wall s | mkosi CPU s | wall s | floor CPU s | mkosi / Spore | Spore / floor | goal | measured | met |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|---|--:|---|\n")
	for _, r := range rows {
		goals := r.Goals
		if len(goals) == 0 {
			goals = []Goal{{}}
		}
		for i, g := range goals {
			cells := make([]string, 8)
			if i == 0 {
				cells = []string{r.What, cpu(r.Ours), wall(r.Ours), cpu(r.Mkosi), wall(r.Mkosi), cpu(r.Floor), over(r.Mkosi, r.Ours), over(r.Ours, r.Floor)}
			}
			if g.Text == "" {
				cells = append(cells, "", "", "")
			} else {
				cells = append(cells, g.Text, g.Measured(), g.Met())
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	return b.String()
}

func cpu(u *Usage) string {
	if u == nil {
		return "–"
	}
	return number(u.CPU.Seconds())
}

func wall(u *Usage) string {
	if u == nil {
		return "–"
	}
	return number(u.Wall.Seconds())
}

func over(a, b *Usage) string {
	if a == nil || b == nil || b.CPU <= 0 {
		return "–"
	}
	return number(ratio(a.CPU, b.CPU))
}

// mebibytes is an amount of memory.
func mebibytes(n int64) string { return fmt.Sprintf("%.0f", float64(n)/(1<<20)) }

// memoryTable shows the largest process of each row.
func memoryTable(rows []Row) string {
	var b strings.Builder
	b.WriteString("| what | Spore MiB | mkosi MiB | floor MiB |\n|---|--:|--:|--:|\n")
	cell := func(u *Usage) string {
		if u == nil || u.Memory == 0 {
			return "–"
		}
		return mebibytes(u.Memory)
	}
	for _, r := range rows {
		if cell(r.Ours) == "–" {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.What, cell(r.Ours), cell(r.Mkosi), cell(r.Floor))
	}
	return b.String()
}

// page is everything that docs/performance.md says.
type page struct {
	machine Machine
	command string
	rounds  int
	skipped map[string]bool
	rows    []Row
	spans   []Span
	scale   []Scale
	updates []Update
	site    *sitebench.Result
}

// Names of the pictures.
const (
	bootPicture  = "boot-chart.svg"
	scalePicture = "scale-chart.svg"
)

// write writes the page, and its pictures where there is something to draw.
func (p *page) write(path, pictures string) error {
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.MkdirAll(pictures, 0o755)); err != nil {
		return err
	}
	link, err := filepath.Rel(filepath.Dir(path), pictures)
	if err != nil {
		return err
	}
	if len(p.spans) > 0 {
		if err := os.WriteFile(filepath.Join(pictures, bootPicture), []byte(bootChart(p.spans, bootTitle)), 0o644); err != nil {
			return err
		}
	}
	if len(p.scale) > 0 {
		if err := os.WriteFile(filepath.Join(pictures, scalePicture), []byte(scaleChart(p.scale)), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(p.text(filepath.ToSlash(link))), 0o644)
}

const bootTitle = "The first boot of edge-01: seconds since the kernel's start, emulated processor"

// text is the page; pictures is the folder of the pictures as the page sees it.
func (p *page) text(pictures string) string {
	var b strings.Builder
	m := p.machine
	fmt.Fprintf(&b, `# Performance

`+"`%s`"+` measures this and writes this page. Everything is measured in one run and in turn, %s,
and the table has the medians. CPU seconds are the sum over all processes that take part, user and system. Compare the
ratios: the seconds depend on this machine.

| | |
|---|---|
| processor | %s, %d cores |
| memory | %d MiB |
| kernel | %s |
| load average before and after | %s, %s |
| Go | %s |
| QEMU | %s |
`, p.command, times(p.rounds), m.CPU, m.Cores, m.MemoryMiB, m.Kernel, m.LoadBefore, m.LoadAfter, m.Go, m.QEMU)
	if m.Accel != "" {
		fmt.Fprintf(&b, "| machines | 1 processor, 1 GiB, OVMF, %s |\n", m.Accel)
	}
	if m.Mkosi != "" {
		fmt.Fprintf(&b, "| mkosi | %s, from Debian %s |\n", strings.TrimPrefix(m.Mkosi, "mkosi "), suite)
	}
	for _, name := range parts {
		if p.skipped[name] {
			fmt.Fprintf(&b, "| left out | %s |\n", name)
		}
	}
	list := p.rows
	if goal := memoryGoal(list); !math.IsNaN(goal.Value) {
		list = append(slices.Clone(list), Row{What: "peak memory of any build, MiB", Goals: []Goal{goal}})
	}
	if len(list) > 0 {
		fmt.Fprintf(&b, "\n%s\n%s", table(list), p.notes())
	}
	if text := memoryTable(p.rows); strings.Count(text, "\n") > 2 {
		fmt.Fprintf(&b, "\n## Memory\n\nThe most that the largest process had at a time.\n\n%s", text)
	}
	if len(p.spans) > 0 {
		fmt.Fprintf(&b, "\n## A boot\n\n![](%s/%s)\n\n%s", pictures, bootPicture, bootText)
	}
	if len(p.scale) > 0 {
		fmt.Fprintf(&b, "\n## Many nodes\n\n%s\n![](%s/%s)\n\n%s", scaleTable(p.scale), pictures, scalePicture, scaleText)
	}
	if len(p.updates) > 0 {
		fmt.Fprintf(&b, "\n## Updates\n\n%s\n%s\n%s\n%s\n%s", updateTable(p.updates), updateText, nodeTable(p.updates), nodeText, updateNotes(p.updates))
	}
	if p.site != nil {
		fmt.Fprintf(&b, "\n## A site\n\n%s\n%s", siteTable(p.site), siteText)
	}
	return b.String()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// notes say what the rows are.
func (p *page) notes() string {
	compiler := ""
	if d := compilerTime(p.rows, coldRow); d > 0 {
		compiler = fmt.Sprintf(" The Go\n  programs of the image are compiled, too, with the go command's cache warm; its %s CPU seconds are not in the row,\n  and the wall time includes them.", number(d.Seconds()))
	}
	without := ""
	for _, r := range p.rows {
		if r.What == coldRow && r.Ours != nil && r.Floor != nil && r.Floor.Apart > 0 {
			packages := r.Floor.CPU - r.Floor.Apart
			without = fmt.Sprintf("\n  Packages and files alone are %s CPU seconds of it; Spore took %s times those.", number(packages.Seconds()), number(float64(r.Ours.CPU)/float64(packages)))
		}
	}
	return `- The image is that of ` + "`examples/edge`" + `: Debian ` + suite + ` with the generic kernel, mosquitto and CoreDNS.
- **cold**: the packages are downloaded, and the cache is empty otherwise.` + compiler + `
- **floor**: one Go program that does the same decompression and compression, with the same libraries and number of
  threads: it decompresses the packages, compresses the data of the image's files at the same level and hashes the
  result; then it decompresses the image's kernel modules (every program that makes modules.dep must read them) and
  compresses the initramfs. It checks nothing, lays nothing out and writes no image.` + without + `
- **mkosi** makes an image of the same packages: a squashfs with zstd at the same level, its dm-verity tree, a unified
  kernel image, systemd-boot. In the cold build it has the packages cached. In the other builds it is in its incremental
  mode, with ` + "`--force`" + `, since without that option it builds nothing when there is an image. A new package makes its
  cache of installed packages invalid. Its image has neither CoreDNS nor an agent; its initramfs has mkosi's list of
  common kernel modules, not all modules.
- **boot**: processor time of QEMU from the kernel's first line on, without firmware and boot loader. Our boot ends with
  the status line that says that mosquitto and CoreDNS are active, after keys were taken and state was made on the disk;
  mkosi's boot ends with the prompt of getty.
`
}

const bootText = `Each line is a unit of systemd, from its start to the time at which systemd regards it as started; the kernel and stage1
come before. In this boot systemd writes these times to the console, so it is slower than the boots in the table.
`

const scaleText = `Each cluster has nodes that are known by their network cards, and the two services of ` + "`examples/edge`" + `. Build is
` + "`spore build`" + ` after an edit of ` + "`cluster.yaml`" + `: the cluster part changes and the root comes from the cache. Detect is
what the agent does on a node: it finds the node in the index of the cluster part and reads its compiled configuration.
`

const updateText = `A node that runs the older image takes that of today; **sent** are all objects that it asks for, with both indexes of
pieces. **packages take** is what the packages that changed take in the image of today: their compressed blocks in the
root, and for the kernel its own section of the UKI; a Debian package holds more than an image takes of it. The goal of
a small package, and of both, is 1.2 times that and 1 MiB, and that of the kernel 1.2 times. An image that was built
again, of the downloads alone, has to send nothing. An updater that sends images sends the last but one column.
`

const nodeText = `The node is the agent's own code on a disk that is a file, with one process for each message as on a machine: it reads
what it runs, copies what the new root has of it, writes what came, reads the root back and makes its hash tree. Before,
the file has the blocks of the free root, is flushed, and is out of the host's memory.
**hashing** is one process that reads the root of the image from the same file system, past the host's memory as the
node reads back, and makes its SHA-256. Both are processor time, user and system, in turn, the median of the rounds;
memory is the most of any round.
`

const siteText = `All nodes look at the same time, each as a process of its own with the API of a node; they give each other pieces over
TLS on loopback. The uplink is a plain web server, which counts what it gives. CPU is that of all nodes and of the web
server, with the start of the processes.
`
