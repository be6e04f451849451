// Package inspect is the command `spore inspect`.
package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/squashfs"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/image"
	"spore/builder/manifest"
	"spore/builder/pcr"
	"spore/builder/privileged"
	"spore/builder/rootfs"
	"spore/cluster/answers"
	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services"
	"spore/storage/espfiles"
)

// Summary is what the command prints.
type Summary struct {
	Image *image.Info `json:"image"`
	// Programs are what the firmware starts, with signatures and what they make of the TPM's PCR 11.
	Programs []image.Program `json:"programs"`
	Cluster  Cluster         `json:"cluster"`
	// Installs is what the machine installs itself by, of the answer file on the medium; nil where that has none.
	Installs *spec.Answers `json:"installs,omitempty"`
	// Refused is what is wrong with the answer file: the machine installs nothing, and says so.
	Refused  []string           `json:"refused,omitempty"`
	Manifest *manifest.Manifest `json:"manifest"`
	// Privileged are files of the root with set-user-ID, set-group-ID or capabilities, as the root itself has them.
	Privileged []privileged.File `json:"privileged"`
}

// Cluster is the part of the configuration that the summary shows.
type Cluster struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Services []string `json:"services"`
	Nodes    []Node   `json:"nodes"`
}

// Node is one node of the image.
type Node struct {
	Name  string   `json:"name"`
	IPs   []string `json:"ips,omitempty"`
	Roles []string `json:"roles"`
}

// Command returns the command.
func Command() *cobra.Command {
	var asJSON, bySize, all, offline bool
	var svg string
	cmd := &cobra.Command{
		Use:   "inspect IMAGE",
		Short: "Show what an image contains: nodes, packages, programs, hashes, sizes",
		Long: `Inspect shows what a disk image or an ISO holds. Of its programs it lists those with set-user-ID, set-group-ID
or capabilities.

With --size it shows what takes the space, in bytes as they are stored: by part, package, payload, directory and file.
With --offline it looks for everything that could download something at run time, prints what it has checked, and fails
when it finds something. Both also take a folder of outputs and a folder for network boot.`,
		Example: "  spore inspect out/spore.img\n  spore inspect out --size --all\n  spore inspect out/spore.img --offline --json",
		Args:    exit.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case bySize && offline:
				return exit.Usage(errors.New("use --size or --offline"))
			case (all || svg != "") && !bySize:
				return exit.Usage(errors.New("--all and --svg go with --size"))
			case bySize:
				return showSize(cmd.OutOrStdout(), args[0], svg, all, asJSON)
			case offline:
				return showOffline(cmd.OutOrStdout(), args[0], asJSON)
			}
			s, err := Read(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			}
			return s.print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&bySize, "size", false, "show what takes the room")
	f.BoolVar(&all, "all", false, "with --size: every package, directory and file")
	f.StringVar(&svg, "svg", "", "with --size: draw it to this file")
	f.BoolVar(&offline, "offline", false, "look for whatever could fetch something at run time")
	return cmd
}

// Read takes the disk image in a file apart.
func Read(name string) (*Summary, error) {
	f, i, err := openImage(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &Summary{Image: i}
	if s.Programs, err = s.Image.Programs(f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.Image.Root == nil || s.Image.Cluster == nil {
		return nil, fmt.Errorf("%s: the partitions that its UKI names are not there", name)
	}
	config, err := open(f, s.Image.Cluster)
	if err != nil {
		return nil, fmt.Errorf("%s: read the cluster part: %w", name, err)
	}
	if err := s.readCluster(config); err != nil {
		return nil, fmt.Errorf("%s: read the cluster part: %w", name, err)
	}
	root, err := open(f, s.Image.Root)
	if err != nil {
		return nil, fmt.Errorf("%s: read the root: %w", name, err)
	}
	if err := s.readManifest(root); err != nil {
		return nil, fmt.Errorf("%s: read the manifest: %w", name, err)
	}
	if s.Privileged, err = readPrivileged(name); err != nil {
		return nil, fmt.Errorf("%s: look for set-user-ID, set-group-ID and capabilities: %w", name, err)
	}
	return s, nil
}

// readPrivileged looks at the modes and attributes of all files, and at their origins.
func readPrivileged(name string) ([]privileged.File, error) {
	i, err := rootfs.Open(name)
	if err != nil {
		return nil, err
	}
	defer i.Close()
	return i.Privileged()
}

// openImage opens a disk image and takes it apart.
func openImage(name string) (*os.File, *image.Info, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	i, err := image.Inspect(f, info.Size())
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, i, nil
}

// ReadNode returns what a disk image tells one of its nodes, and what it tells all of them.
func ReadNode(name, node string) (*facts.Node, *facts.Cluster, error) {
	nodes, c, err := ReadNodes(name)
	if err != nil {
		return nil, nil, err
	}
	n, err := facts.Find(nodes, node, name)
	return n, c, err
}

// ReadNodes returns what a disk image tells each of its nodes, sorted by name, and what it tells all of them.
func ReadNodes(name string) ([]facts.Node, *facts.Cluster, error) {
	var nodes []facts.Node
	var c *facts.Cluster
	err := withCluster(name, func(config fs.FS) (err error) {
		c, nodes, err = services.ReadPart(config)
		return err
	})
	slices.SortFunc(nodes, func(a, b facts.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, c, err
}

// DiskUUID tells one build of a disk image from another.
func DiskUUID(name string) (string, error) {
	f, i, err := openImage(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return i.DiskUUID + " " + i.RootHash + " " + i.ClusterHash, nil
}

func withCluster(name string, fn func(config fs.FS) error) error {
	f, i, err := openImage(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if i.Cluster == nil {
		return fmt.Errorf("%s: the cluster part that its UKI names is not there", name)
	}
	config, err := open(f, i.Cluster)
	if err != nil {
		return fmt.Errorf("%s: read the cluster part: %w", name, err)
	}
	if err := fn(config); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// open reads a squashfs that lies inside the image.
func open(f *os.File, part *image.Filesystem) (fs.FS, error) {
	return squashfs.Read(file.New(f, true), part.Size, part.Offset, 0)
}

// readCluster reads the compiled configuration that the image carries.
func (s *Summary) readCluster(config fs.FS) error {
	c, nodes, err := services.ReadPart(config)
	if err != nil {
		return err
	}
	s.Cluster = Cluster{Name: c.Name, ID: c.ID, Services: serviceNames(c.Services)}
	for _, n := range nodes {
		s.Cluster.Nodes = append(s.Cluster.Nodes, Node{Name: n.Name, IPs: n.IPs, Roles: n.Roles})
	}
	s.readAnswers(nodes)
	return nil
}

// readAnswers checks the answer file of the medium as the machine does, so far as that needs no machine.
func (s *Summary) readAnswers(nodes []facts.Node) {
	if len(s.Image.Answers) == 0 {
		return
	}
	order, report := answers.Parse(espfiles.Answers, s.Image.Answers)
	for _, p := range append(report, answers.Check(order, nodes)...).Sorted() {
		if p.Severity == check.Error {
			s.Refused = append(s.Refused, p.String())
		}
	}
	order.FillDefaults()
	s.Installs = &order.Answers
}

// printMedium says what the medium makes of a machine: the node that it chooses, and how the machine installs itself.
func (s *Summary) printMedium(w io.Writer) {
	switch n := s.Image.Node; {
	case n == "":
	case slices.ContainsFunc(s.Cluster.Nodes, func(known Node) bool { return known.Name == n }):
		fmt.Fprintf(w, "chooses\tthe node %s\n", n)
	default: // It may be anything, such as what a terminal obeys.
		fmt.Fprintf(w, "chooses\tno node: the image has none that is called %+q\n", n)
	}
	switch a := s.Installs; {
	case a == nil:
	case len(s.Refused) > 0:
		for _, problem := range s.Refused {
			fmt.Fprintf(w, "installs\tnothing: %s\n", problem)
		}
	default:
		fmt.Fprintf(w, "installs\tthe node %s on the disk %s, state: %s, and then: %s\n", a.Node, a.Disk.Word(), a.State, a.Then)
	}
}

// serviceNames are the names of the services that have settings, sorted.
func serviceNames(s spec.Services) []string {
	var out []string
	for _, settings := range s {
		out = append(out, settings.Service())
	}
	slices.Sort(out)
	return out
}

func (s *Summary) readManifest(root fs.FS) error {
	data, err := fs.ReadFile(root, manifest.ImagePath[1:])
	if err != nil {
		return fmt.Errorf("the root has no manifest, it is not an image of spore: %w", err)
	}
	s.Manifest = &manifest.Manifest{}
	return json.Unmarshal(data, s.Manifest)
}

func (s *Summary) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "cluster\t%s (%s)\n", s.Cluster.Name, s.Cluster.ID)
	fmt.Fprintf(t, "built\t%s\n", time.Unix(s.Manifest.BuildTime, 0).UTC().Format(time.RFC3339))
	s.printMedium(t)
	fmt.Fprintf(t, "root hash\t%s\n", s.Image.RootHash)
	fmt.Fprintf(t, "cluster hash\t%s\n", s.Image.ClusterHash)
	fmt.Fprintf(t, "pieces\t%s\n", indexed(s.Image.Root))
	fmt.Fprintf(t, "kernel\t%s\n", s.Manifest.Kernel)
	for _, key := range s.Manifest.ShellKeys {
		fmt.Fprintf(t, "shell\tof root, for an hour, by a grant of the key %s\n", key)
	}
	if s.Image.ISO != nil {
		fmt.Fprintf(t, "boots\t%s\n", boots(s.Image.ISO))
	}
	for _, p := range s.Image.Problems {
		fmt.Fprintf(t, "problem\t%s\n", p)
	}
	printPrograms(t, s.Programs)
	fmt.Fprintf(t, "\nPARTITION\tSIZE\tUUID\n")
	for _, p := range s.Image.Partitions {
		fmt.Fprintf(t, "%s\t%d MiB\t%s\n", p.Name, p.Size>>20, p.UUID)
	}
	fmt.Fprintf(t, "\nNODE\tADDRESSES\tROLES\n")
	for _, n := range s.Cluster.Nodes {
		fmt.Fprintf(t, "%s\t%s\t%s\n", n.Name, list(n.IPs), list(n.Roles))
	}
	fmt.Fprintf(t, "\nPAYLOAD\tVERSION\tSIZE\tSHA-256\n")
	for _, p := range s.Manifest.Payloads {
		fmt.Fprintf(t, "%s\t%s\t%.1f MiB\t%s\n", p.Name, p.Version, float64(p.Size)/(1<<20), p.SHA256)
	}
	if len(s.Manifest.Images) > 0 {
		fmt.Fprintf(t, "\nCONTAINER IMAGE\tSIZE\tDIGEST\n")
		for _, i := range s.Manifest.Images {
			for _, name := range i.Names {
				fmt.Fprintf(t, "%s\t%.1f MiB\t%s\n", name, float64(i.Size)/(1<<20), i.Digest)
			}
		}
	}
	printOwn(t, s.Manifest.Own)
	printPrivileged(t, s.Privileged)
	fmt.Fprintf(t, "\nPACKAGE\tVERSION\tSHA-256 OF THE .DEB\n")
	for _, p := range s.Manifest.Packages {
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.Name, p.Version, p.SHA256)
	}
	return t.Flush()
}

// printOwn lists the files of overlay/ and units/ of the configuration, where there are some.
func printOwn(w io.Writer, files []manifest.OwnFile) {
	if len(files) > 0 {
		fmt.Fprintf(w, "\nFILE OF THE CONFIGURATION\tFROM\tMODE\tOWNER\tSHA-256\n")
	}
	for _, f := range files {
		what := f.SHA256
		switch f.Type {
		case "symlink":
			what = "a link to " + f.Target
		case "dir":
			what = "a directory"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s:%s\t%s\n", f.Path, f.From, f.Mode, f.Owner, f.Group, what)
	}
}

// printPrivileged shows what gives rights of its owner or group, or capabilities, to whoever starts it.
func printPrivileged(w io.Writer, files []privileged.File) {
	fmt.Fprintf(w, "\nSET-USER-ID, SET-GROUP-ID, CAPABILITIES\tMODE\tOWNER\tPACKAGE\n")
	for _, f := range files {
		what := strings.TrimSpace(f.Path + " " + f.Capabilities)
		fmt.Fprintf(w, "%s\t%s\t%s:%s\t%s\n", what, f.Mode, f.Owner, f.Group, cmp.Or(f.Package, "-"))
	}
	if len(files) == 0 {
		fmt.Fprintf(w, "none\t\t\t\n")
	}
}

// indexed says what an update of a node to this root goes by.
func indexed(root *image.Filesystem) string {
	if root.IndexSize == 0 {
		return "not listed: the image was built by an older spore"
	}
	return fmt.Sprintf("%d, listed in %d KiB", root.Pieces, root.IndexSize>>10)
}

// boots says how an ISO is booted as a disc; as a disk it is by its partitions.
func boots(i *image.ISO) string {
	var by []string
	if i.UEFI {
		by = append(by, "UEFI")
	}
	if i.BIOS {
		by = append(by, "BIOS")
	}
	return fmt.Sprintf("as the disc %s under %s; as a stick by its partitions", i.Label, list(by))
}

// printPrograms shows who signed what the firmware starts.
func printPrograms(w io.Writer, programs []image.Program) {
	fmt.Fprintf(w, "\nPROGRAM\tSECURE BOOT\n")
	for _, p := range programs {
		if p.Problem != "" {
			fmt.Fprintf(w, "%s\tproblem: %s\n", p.Path, p.Problem)
		}
		if len(p.Signatures) == 0 {
			fmt.Fprintf(w, "%s\tnot signed\n", p.Path)
		}
		for _, sig := range p.Signatures {
			if sig.Problem != "" {
				fmt.Fprintf(w, "%s\tWRONG: %s\n", p.Path, sig.Problem)
				continue
			}
			fmt.Fprintf(w, "%s\tsigned by %s, certificate %s\n", p.Path, sig.Subject, sig.Fingerprint)
		}
		if p.PCR11 != nil {
			fmt.Fprintf(w, "\tPCR 11 will be %s, %s\n\tand %s on the running machine\n", p.PCR11, pcrSigned(p.PCRSignatures), p.PCR11Running)
		}
	}
}

func pcrSigned(list []pcr.Signed) string {
	if len(list) == 0 {
		return "not signed"
	}
	return "signed by key " + list[0].Key
}

func list(values []string) string {
	out := "-"
	for i, v := range values {
		if i == 0 {
			out = v
		} else {
			out += ", " + v
		}
	}
	return out
}
