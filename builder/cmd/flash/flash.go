// Package flash is the command `spore flash`: put an image on a memory stick, a disk or a file.
package flash

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inspect"
	"spore/builder/cmd/operator"
	"spore/builder/progress"
	"spore/cluster/answers"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/storage/disk"
	"spore/storage/flash"
)

type flags struct {
	serial     string
	yes        bool
	json       bool
	keepState  bool
	eraseState string
	node       string
	answers    string
	bundle     string
	keys       operator.Folder
}

// outside is what a test replaces.
type outside struct {
	now  func() time.Time
	host func() (flash.Host, error)
	// nodes are those of an image.
	nodes func(image string) ([]facts.Node, *facts.Cluster, error)
	// in is where the answer to the question comes from.
	in io.Reader
}

// Command returns the command.
func Command() *cobra.Command {
	return command(outside{
		now: time.Now, host: func() (flash.Host, error) { return flash.ThisHost("/") }, nodes: inspect.ReadNodes, in: os.Stdin,
	})
}

func command(world outside) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "flash IMAGE [DEVICE]",
		Short: "Write an image to a USB stick, a disk or a file",
		Long: `Flash writes IMAGE (spore.img or spore.iso of a build's folder) to DEVICE. Without DEVICE it lists the removable disks.

It refuses disks that are mounted or in use. A disk that is not removable must be named by --serial or by its path under
/dev/disk/by-id. It asks before it writes. It writes only what differs; then it reads everything back from the medium
and compares it. If it is interrupted, the medium either does not boot or is complete.

A state partition that is on the medium is kept. If the new system does not fit beside it, flash refuses; --erase-state
with the serial number of the disk (or the name of a file) erases it.

With --node the medium makes the machine that boots from it that node, and brings its bundle of secrets, made from the
operator's folder. Everybody who has the medium can read the bundle, until the node has sealed it and removed it from
the medium.

With --answers the machine that boots from the medium installs itself on the disk that the answer file names, without a
person. The file says which node it is, so that --node is not needed. It is checked against the image, as
spore validate --answers checks it against the configuration.`,
		Example: `  spore flash out/spore.img
  spore flash out/spore.img /dev/sdb
  spore flash out/spore.img /dev/sdb --node edge-01 --yes
  spore flash out/spore.img /dev/sdb --answers edge-01.yaml
  spore flash out/spore.img --serial S5H9NX0R
  truncate -s 8G disk.img && spore flash out/spore.img disk.img`,
		Args: exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			device := ""
			if len(args) == 2 {
				device = args[1]
			}
			if err := f.check(device); err != nil {
				return exit.Usage(err)
			}
			if device == "" && f.serial == "" {
				return list(cmd.OutOrStdout(), world, args[0], f.json)
			}
			return run(cmd, world, args[0], device, f)
		},
	}
	cmd.Flags().StringVar(&f.serial, "serial", "", "use the disk with this serial number, also if it is not removable")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the list of disks, or the result, as JSON")
	cmd.Flags().BoolVar(&f.keepState, "keep-state", true, "keep the state partition that is on the disk")
	cmd.Flags().StringVar(&f.eraseState, "erase-state", "", "give up the state partition on the disk with this serial number")
	cmd.Flags().StringVar(&f.node, "node", "", "name of the node which the machine with this medium becomes")
	cmd.Flags().StringVar(&f.answers, "answers", "", "answer file by which the machine with this medium installs itself on a disk")
	cmd.Flags().StringVar(&f.bundle, "bundle", "", "put this bundle on the medium, such as an encrypted one of spore pki bundle, instead of making one")
	f.keys.Register(cmd)
	return cmd
}

// check refuses flags that contradict each other.
func (f flags) check(device string) error {
	switch {
	case !f.keepState && f.eraseState == "":
		return errors.New("--keep-state=false deletes the state: name the disk whose state it is with --erase-state SERIAL")
	case f.node == "" && f.answers == "" && (f.bundle != "" || f.keys.Dir != ""):
		return errors.New("--bundle and --pki go with --node or --answers")
	case f.bundle != "" && f.keys.Dir != "":
		return errors.New("--bundle and --pki exclude each other")
	case device == "" && f.serial == "" && (f.node != "" || f.answers != "" || f.eraseState != ""):
		return errors.New("name the device, or the disk with --serial")
	}
	return nil
}

func run(cmd *cobra.Command, world outside, imageName, device string, f flags) error {
	ctx, w := cmd.Context(), cmd.ErrOrStderr()
	img, err := flash.OpenRead(imageName)
	if err != nil {
		return err
	}
	defer img.Close()
	layout, err := flash.Image(img, img.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", imageName, err)
	}
	order, err := f.order(w, world, imageName)
	if err != nil {
		return err
	}
	target, err := find(world, device, f.serial)
	if err != nil {
		return err
	}
	if order != nil && slices.ContainsFunc(target.Serials, func(s string) bool { return strings.EqualFold(s, order.Disk.Serial) }) {
		return fmt.Errorf("%s names %s itself: name the disk of the machine that it is to be installed on", f.answers, target.Where())
	}
	if err := cmp.Or(flash.Refuse(target), sameFile(imageName, target), f.checkErase(target)); err != nil {
		return err
	}
	dev, err := target.Open()
	if err != nil {
		return err
	}
	defer dev.Close()
	options := flash.Options{Layout: layout, EraseState: f.eraseState != ""}
	// Once with the layout as it is, so that no bundle is made for a disk that is then refused.
	if dev.SectorSize() == 512 {
		if _, err := flash.Check(dev, options); err != nil {
			return fmt.Errorf("%s is refused: %w; nothing was written", target.Where(), err)
		}
	}
	if err := f.confirm(w, world, imageName, target, dev); err != nil {
		return err
	}
	if f.node != "" || dev.SectorSize() != 512 {
		choice, err := f.choose(w, world, imageName)
		if err != nil {
			return err
		}
		if order != nil {
			choice.Answers = order.Data
		}
		if options.Layout, err = layout.With(choice, dev.SectorSize()); err != nil {
			return fmt.Errorf("%s: %w", imageName, err)
		}
	}
	report, err := write(ctx, w, world, dev, options)
	if err != nil {
		return fmt.Errorf("%s: %w", target.Where(), err)
	}
	return f.print(cmd.OutOrStdout(), target, report, order)
}

// order is the answer file, checked against the image; nil without one. The node that it names is that of the medium.
func (f *flags) order(w io.Writer, world outside, image string) (*answers.File, error) {
	if f.answers == "" {
		return nil, nil
	}
	order, report, err := answers.Read(f.answers)
	if err != nil {
		return nil, err
	}
	nodes, _, err := world.nodes(image)
	if err != nil {
		return nil, err
	}
	report = append(report, answers.Check(order, nodes)...).Sorted()
	fmt.Fprint(w, report)
	if report.Failed() {
		return nil, fmt.Errorf("the answer file %s does not fit %s; nothing was written", f.answers, image)
	}
	if f.node != "" && f.node != order.Node {
		return nil, fmt.Errorf("--node is %s, and %s is for node %s; nothing was written", f.node, f.answers, order.Node)
	}
	f.node = order.Node
	order.FillDefaults()
	return order, nil
}

// find is the target by its path or its serial number.
func find(world outside, device, serial string) (flash.Target, error) {
	h, err := world.host()
	if err != nil {
		return flash.Target{}, err
	}
	if serial == "" {
		return h.Find(device)
	}
	all, err := h.Disks()
	if err != nil {
		return flash.Target{}, err
	}
	var disks []disk.Disk
	for _, t := range all {
		disks = append(disks, t.Disk)
	}
	d, err := disk.Select(disks, spec.DiskSelector{Serial: serial})
	if err != nil {
		return flash.Target{}, err
	}
	if device != "" {
		t, err := h.Find(device)
		if err != nil {
			return flash.Target{}, err
		}
		if t.File != "" || t.Name != d.Name || t.Part != "" {
			return flash.Target{}, fmt.Errorf("%s is not the disk with the serial number %s, which is %s", device, serial, d.Path())
		}
	}
	i := slices.IndexFunc(all, func(t flash.Target) bool { return t.Name == d.Name })
	all[i].Named = true
	return all[i], nil
}

// sameFile refuses to write an image over itself.
func sameFile(image string, t flash.Target) error {
	a, err := os.Stat(image)
	if err != nil {
		return err
	}
	b, err := os.Stat(cmp.Or(t.File, t.Path()))
	if err == nil && os.SameFile(a, b) {
		return fmt.Errorf("%s is the image itself", image)
	}
	return nil
}

// checkErase makes sure that the state that is given up is that of this disk.
func (f flags) checkErase(t flash.Target) error {
	if f.eraseState == "" || slices.ContainsFunc(t.Serials, func(s string) bool { return strings.EqualFold(s, f.eraseState) }) {
		return nil
	}
	return fmt.Errorf("--erase-state names %q, and %s has the serial number %s; nothing was written", f.eraseState, t.Where(), t.Serial())
}

// confirm shows what will be lost, and asks.
func (f flags) confirm(w io.Writer, world outside, image string, t flash.Target, dev *flash.File) error {
	fmt.Fprintf(w, "%s holds %s.\n", t.Where(), flash.Content(dev, dev.Size(), dev.SectorSize()))
	if f.yes {
		return nil
	}
	if f.eraseState != "" {
		fmt.Fprintln(w, "Its state will be deleted.")
	}
	fmt.Fprintf(w, "Write %s to it? Its content is lost, except state that is kept. [y/N] ", image)
	answer, err := bufio.NewReader(world.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was written; answer y, or give --yes")
	}
	return nil
}

// choose makes what the medium says of the node: its name, and its bundle.
func (f flags) choose(w io.Writer, world outside, image string) (flash.Choice, error) {
	c := flash.Choice{Node: f.node}
	if f.node == "" {
		return c, nil
	}
	nodes, cluster, err := world.nodes(image)
	if err != nil {
		return c, err
	}
	node, err := facts.Find(nodes, f.node, image)
	if err != nil {
		return c, err
	}
	if f.bundle != "" {
		c.Bundle, err = os.ReadFile(f.bundle)
		return c, err
	}
	bundles, none, err := f.keys.Bundles(cluster, []*facts.Node{node}, operator.Options{
		Now: world.now(), Record: true, Near: []string{".", filepath.Dir(filepath.Dir(filepath.Clean(image)))},
	})
	if err != nil {
		return c, fmt.Errorf("bundle of %s: %w", f.node, err)
	}
	if len(bundles) == 0 {
		fmt.Fprintf(w, "%s: %s\n", f.node, none)
		return c, nil
	}
	c.Bundle = bundles[0].Data
	fmt.Fprintf(w, "%s: bundle %d from %s\n", f.node, bundles[0].Serial, bundles[0].Folder)
	return c, nil
}

// write writes with a line of progress that is rewritten, or where nobody looks, a line for each phase.
func write(ctx context.Context, w io.Writer, world outside, dev *flash.File, o flash.Options) (flash.Report, error) {
	printer, meter, phase := progress.New(w, world.now), flash.Meter{Now: world.now}, ""
	step := printer.Step(flash.Writing)
	o.Progress = func(p flash.Progress) {
		if phase != "" && p.Phase != phase {
			step.Done()
			step = printer.Step(p.Phase)
		}
		phase = p.Phase
		printer.Live("%s", meter.Line(p))
	}
	report, err := flash.Write(ctx, dev, o)
	if err != nil {
		printer.Printf("")
		return report, err
	}
	step.Done()
	dev.Reread()
	return report, nil
}

// result is what --json prints.
type result struct {
	Target string `json:"target"`
	Serial string `json:"serial"`
	Node   string `json:"node,omitempty"`
	// Installs is what the machine installs itself by.
	Installs *spec.Answers `json:"installs,omitempty"`
	flash.Report
	Kept []string `json:"kept,omitempty"`
}

func (f flags) print(w io.Writer, t flash.Target, r flash.Report, order *answers.File) error {
	out := result{Target: cmp.Or(t.File, t.Path()), Serial: t.Serial(), Node: f.node, Report: r}
	for _, p := range r.Kept {
		out.Kept = append(out.Kept, p.GUID.String())
	}
	if order != nil {
		out.Installs = &order.Answers
	}
	if f.json {
		return json.NewEncoder(w).Encode(out)
	}
	fmt.Fprintf(w, "%s: %s; read back and compared\n", out.Target, r.Saved())
	if r.Note != "" {
		fmt.Fprintln(w, r.Note)
	}
	for _, id := range out.Kept {
		fmt.Fprintf(w, "kept the state partition %s\n", id)
	}
	if f.node != "" {
		fmt.Fprintf(w, "the machine that boots from it becomes %s\n", f.node)
	}
	if order != nil {
		d := order.Disk
		fmt.Fprintf(w, "it installs itself on the disk %s (state: %s), and then: %s\n", cmp.Or(d.Serial, d.WWN, d.ByID), order.State, order.Then)
		if order.State == spec.StateErase {
			fmt.Fprintln(w, "a machine with Secure Boot on refuses it, because an answer file is not signed: write state: keep for one")
		}
	}
	return nil
}

// row is a removable disk in the list.
type row struct {
	Device  string `json:"device"`
	Size    int64  `json:"size"`
	Model   string `json:"model"`
	Serial  string `json:"serial"`
	Content string `json:"content"`
	Refused string `json:"refused,omitempty"`
}

// list shows the removable disks.
func list(w io.Writer, world outside, image string, asJSON bool) error {
	h, err := world.host()
	if err != nil {
		return err
	}
	disks, err := h.Disks()
	if err != nil {
		return err
	}
	rows, others := []row{}, 0
	for _, t := range disks {
		if !t.Removable {
			others++
			continue
		}
		r := row{Device: t.Path(), Size: t.Size, Model: t.Model, Serial: t.Serial(), Content: content(t)}
		if err := flash.Refuse(t); err != nil {
			r.Refused = strings.Join(t.Uses, "; ")
			if r.Refused == "" {
				r.Refused = "read-only"
			}
		}
		rows = append(rows, r)
	}
	if asJSON {
		return json.NewEncoder(w).Encode(rows)
	}
	for _, r := range rows {
		note := ""
		if r.Refused != "" {
			note = "  (" + r.Refused + ")"
		}
		fmt.Fprintf(w, "%-12s %7.1f GB  %-28s serial %-20s %s%s\n", r.Device, float64(r.Size)/1e9, r.Model, r.Serial, r.Content, note)
	}
	if len(rows) == 0 {
		fmt.Fprintln(w, "There is no removable disk.")
	}
	fmt.Fprintf(w, "Write one with: spore flash %s DEVICE", image)
	if others > 0 {
		fmt.Fprintf(w, "; %d that are not removable are taken by --serial alone", others)
	}
	fmt.Fprintln(w)
	return nil
}

// content is what is on a disk, or why that is not known.
func content(t flash.Target) string {
	dev, err := flash.OpenRead(t.Path())
	if errors.Is(err, os.ErrPermission) {
		return "what is on it, root can see (sudo)"
	}
	if err != nil {
		return err.Error()
	}
	defer dev.Close()
	return "holds " + strings.TrimPrefix(strings.TrimPrefix(flash.Content(dev, dev.Size(), dev.SectorSize()), "it holds "), "it ")
}
