// Program bootorder records in which order a boot reads the files of the root: it starts a node of an image in QEMU, notes
// each read of the disk, and finds the files whose data is there. `make bootorder` runs it.
//
//	go run ./test/bootorder out edge-01 > builder/bootorder/order.txt
//
// With the file of a trace it boots nothing and takes that. On standard error it says how far the reads run forward.
//
// A read of a block that small files share tells only the block. The first of them stands for it; of a block that is
// stored as it is, which the linker divides anew, all do.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/builder/bootorder"
	"spore/builder/unsquash"
	"spore/builder/vm"
)

// limit bounds the boot; emulation takes its time.
const limit = 10 * time.Minute

// sector is the unit of QEMU's trace, in bytes.
const sector = 512

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: bootorder OUT NODE [TRACE]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]...); err != nil {
		fmt.Fprintln(os.Stderr, "bootorder:", err)
		os.Exit(1)
	}
}

func run(out, node string, traces ...string) (err error) {
	var trace string
	if len(traces) > 0 {
		var data []byte
		data, err = os.ReadFile(traces[0])
		trace = string(data)
	} else {
		trace, err = boot(out, node)
	}
	if err != nil {
		return err
	}
	disk := filepath.Join(out, "spore.img")
	root, err := vm.FindPartition(disk, "root-a")
	if err != nil {
		return err
	}
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	blocks, err := blocksOf(io.NewSectionReader(f, root.Start, root.Size), root.Size)
	if err != nil {
		return err
	}
	reads, err := readsOf(trace, root.Start, root.Size)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	var count, backward, size, jumped, last, end int64
	for _, r := range reads {
		touched := touchedBy(blocks, r)
		if len(touched) == 0 {
			continue // tables
		}
		if count++; r.Offset < last {
			backward++
		}
		jumped += max(r.Offset-last, last-r.Offset)
		size, last, end = size+r.Size, r.Offset+r.Size, max(end, r.Offset+r.Size)
		for _, b := range touched {
			for _, p := range b.files {
				if name := bootorder.Name(p); !seen[name] {
					seen[name] = true
					fmt.Println(name)
				}
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%d reads of data, %d of them backward, %.1f MiB, the last byte at %.1f MiB, jumps over %.1f MiB\n",
		count, backward, float64(size)/(1<<20), float64(end)/(1<<20), float64(jumped)/(1<<20))
	return nil
}

// boot starts the node until it runs, and returns QEMU's trace.
func boot(out, node string) (trace string, err error) {
	dir, err := os.MkdirTemp("", "spore-bootorder-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	log, program := filepath.Join(dir, "trace"), filepath.Join(dir, "tracing")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" -trace enable=virtio_blk_handle_read -D '%s'\n", strings.Join(vm.QEMU(), "' '"), log)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "bin/spore", "boot", out, "--node", node, "--json", "--rm")
	c.Env = append(os.Environ(), "SPORE_QEMU="+program)
	c.Stderr = os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	lines, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	running := false
	for s := bufio.NewReader(lines); ; {
		line, err := s.ReadString('\n')
		if strings.Contains(line, `"system":"running"`) {
			running = true
			cancel()
		}
		if err != nil {
			break
		}
	}
	err = c.Wait()
	if !running {
		return "", fmt.Errorf("the node did not come to run: %w", cmp.Or(err, errors.New("spore boot ended")))
	}
	data, err := os.ReadFile(log)
	return string(data), err
}

// readsOf are the reads of a partition of the trace, from its start.
func readsOf(trace string, start, size int64) ([]unsquash.Extent, error) {
	var out []unsquash.Extent
	for _, line := range strings.Split(trace, "\n") {
		_, rest, ok := strings.Cut(line, " sector ")
		if !ok {
			continue
		}
		var at, n int64
		if _, err := fmt.Sscanf(rest, "%d nsectors %d", &at, &n); err != nil {
			return nil, fmt.Errorf("a line of the trace that is none: %q", line)
		}
		if at*sector >= start && at*sector < start+size {
			out = append(out, unsquash.Extent{Offset: at*sector - start, Size: n * sector})
		}
	}
	return out, nil
}

// block is a piece of data with the files that stand for it.
type block struct {
	unsquash.Extent
	files []string
}

// blocksOf lists what files have data, by its place.
func blocksOf(r io.ReaderAt, size int64) ([]block, error) {
	img, err := unsquash.Open(r, size)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	byStart := map[int64]*block{}
	add := func(b unsquash.Block, path string) {
		if b.Size == 0 {
			return
		}
		known := byStart[b.Offset]
		if known == nil {
			known = &block{Extent: b.Extent}
			byStart[b.Offset] = known
		}
		if b.Stored || len(known.files) == 0 {
			known.files = append(known.files, path)
		}
	}
	for _, e := range img.Entries {
		for _, b := range e.Blocks {
			add(b, e.Path)
		}
		if e.Fragment >= 0 {
			add(img.Fragments[e.Fragment], e.Path)
		}
	}
	var blocks []block
	for _, b := range byStart {
		blocks = append(blocks, *b)
	}
	slices.SortFunc(blocks, func(a, b block) int { return cmp.Compare(a.Offset, b.Offset) })
	return blocks, nil
}

// page is the unit in which a machine reads.
const page = 4096

// touchedBy are the blocks that a read is for. A page at the end of one has the beginning of the next.
func touchedBy(blocks []block, r unsquash.Extent) []block {
	i, _ := slices.BinarySearchFunc(blocks, r.Offset, func(b block, at int64) int { return cmp.Compare(b.Offset+b.Size, at) })
	var out []block
	for ; i < len(blocks) && blocks[i].Offset < r.Offset+r.Size; i++ {
		first, end := (blocks[i].Offset+page-1)/page*page, (blocks[i].Offset+blocks[i].Size)/page*page
		if first >= end || first < r.Offset+r.Size && end > r.Offset {
			out = append(out, blocks[i])
		}
	}
	return out
}
