package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"spore/builder/rootfs"
	"spore/builder/size"
	"spore/builder/treemap"
)

// largest is how many rows of each table are shown without --all.
const largest = 12

// Size of the picture in pixels.
const (
	pictureWidth  = 1000
	pictureHeight = 640
)

// showSize prints what takes the room of an image, and draws it to a file where svg names one.
func showSize(w io.Writer, name, svg string, all, asJSON bool) error {
	i, err := rootfs.Open(name)
	if err != nil {
		return err
	}
	defer i.Close()
	r, err := size.Of(i)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if svg != "" {
		if err := drawSize(svg, r, i.Manifest.Kernel); err != nil {
			return err
		}
	}
	if !all {
		r.Root.Packages, r.Root.Payloads, r.Root.Own = most(r.Root.Packages), most(r.Root.Payloads), most(r.Root.Own)
		r.Root.Directories, r.Root.Files = most(r.Root.Directories), most(r.Root.Files)
	}
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	return printSize(w, r)
}

// most keeps the largest items and adds up the rest.
func most(items []size.Item) []size.Item {
	if len(items) <= largest+1 {
		return items
	}
	rest := size.Item{Name: fmt.Sprintf("%d others", len(items)-largest)}
	for _, i := range items[largest:] {
		rest.Bytes += i.Bytes
		rest.Size += i.Size
		rest.Files += i.Files
	}
	return append(items[:largest:largest], rest)
}

func printSize(w io.Writer, r *size.Report) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "PART\tBYTES\tMIB\n")
	for _, p := range r.Parts {
		fmt.Fprintf(t, "%s\t%d\t%s\n", p.Name, p.Bytes, mib(p.Bytes))
	}
	fmt.Fprintf(t, "all\t%d\t%s\n", r.Bytes, mib(r.Bytes))
	fmt.Fprintf(t, "\nOF THE UKI\tBYTES\tMIB\n")
	for _, p := range r.UKI {
		fmt.Fprintf(t, "%s\t%d\t%s\n", p.Name, p.Bytes, mib(p.Bytes))
	}
	fmt.Fprintf(t, "\nOF THE ROOT\tBYTES\tMIB\n")
	for _, p := range []size.Part{{Name: "data of files", Bytes: r.Root.Data}, {Name: "metadata", Bytes: r.Root.Metadata}, {Name: "unused", Bytes: r.Root.Unused}, {Name: "padding", Bytes: r.Root.Padding}} {
		fmt.Fprintf(t, "%s\t%d\t%s\n", p.Name, p.Bytes, mib(p.Bytes))
	}
	fmt.Fprintf(t, "all\t%d\t%s\n", r.Root.Bytes, mib(r.Root.Bytes))
	if d := r.Root.Duplicates; d.Files > 0 {
		fmt.Fprintf(t, "\n%d files have the same content as others; storing it once saves %s MiB.\n", d.Files, mib(d.Bytes))
	}
	for _, table := range []struct {
		name  string
		items []size.Item
	}{{"PACKAGE", r.Root.Packages}, {"PAYLOAD", r.Root.Payloads}, {"OURS", r.Root.Own}, {"DIRECTORY", r.Root.Directories}, {"FILE", r.Root.Files}} {
		if len(table.items) == 0 {
			continue
		}
		fmt.Fprintf(t, "\n%s\tBYTES\tMIB\tUNCOMPRESSED\tFILES\n", table.name)
		for _, i := range table.items {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\n", i.Name, i.Bytes, mib(i.Bytes), mib(i.Size), i.Files)
		}
	}
	return t.Flush()
}

func mib(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

// drawSize writes a picture of the image without its free room.
func drawSize(name string, r *size.Report, kernel string) error {
	const packages, payloads, own, boot, rest = 0, 1, 2, 3, 4
	var boxes []treemap.Box
	var total int64
	add := func(name string, bytes int64, group int) {
		boxes = append(boxes, treemap.Box{Name: name, Size: bytes, Note: mib(bytes) + " MiB", Group: group})
		total += bytes
	}
	for group, items := range [][]size.Item{packages: r.Root.Packages, payloads: r.Root.Payloads, own: r.Root.Own} {
		for _, i := range items {
			add(i.Name, i.Bytes, group)
		}
	}
	for _, p := range r.UKI {
		add("UKI: "+p.Name, p.Bytes, boot)
	}
	add("metadata of the root", r.Root.Metadata+r.Root.Unused+r.Root.Padding, rest)
	for _, p := range r.Parts[1:4] { // those of the verified partitions but for the root
		add(p.Name, p.Bytes, rest)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = treemap.Write(f, boxes, treemap.Options{
		Width: pictureWidth, Height: pictureHeight, Title: fmt.Sprintf("What takes the room: %s MiB, kernel %s", mib(total), kernel),
		Groups: []string{"Debian packages", "payloads", "units, overlay, made by the build", "UKI", "metadata and hash trees"},
	})
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
