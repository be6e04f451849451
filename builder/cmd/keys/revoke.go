package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/signing"
	"spore/builder/image"
	"spore/builder/revocation"
	"spore/builder/secureboot"
	"spore/builder/uki"
	"spore/cluster/facts"
	"spore/pki/authenticode"
	"spore/pki/siglist"
	"spore/wire/nodeapi"
)

type revokeFlags struct {
	keys, out      string
	signing        signing.Flags
	reach          reach.Flags
	offline, force bool
}

func revokeCommand(world outside) *cobra.Command {
	var f revokeFlags
	cmd := &cobra.Command{
		Use:   "revoke IMAGE...",
		Short: "Revoke images (dbx), so that no machine starts them any more",
		Long: `Revoke adds the hashes of the kernels (UKIs) of images to dbx.auth, a list that the key exchange key (KEK) signs. Lay it
beside cluster.yaml, build, and push: each machine with Secure Boot gives it to its firmware at its first start that is
not a trial. It prepares its TPM before, so that nobody has to type a recovery key. Hashes that are in the file already
stay there.

A machine refuses a list that names a kernel on its own ESP: push until both of its slots have newer images. Firmware
never removes an entry from dbx. Where the folder of the list has a cluster.yaml, its nodes are asked first what they
start: the command names those that run a revoked image or would go back to one, and refuses a list that would leave a
node nothing to start, unless --force is given. With --offline no node is asked, as on a machine that has the KEK and no
network.`,
		Example: "  spore keys revoke old/spore.img -o configs/dbx.auth",
		Args:    exit.Args(cobra.MinimumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return revoke(cmd, world, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.keys, "keys", defaultDir, "the folder with the key exchange key: KEK.key.age or KEK.key, and KEK.crt")
	flags.StringVarP(&f.out, "output", "o", "dbx.auth", "file of the list, which is made or extended")
	flags.StringVar(&f.signing.PassphraseFile, "key-passphrase-file", "", "read the passphrase of an encrypted key from this file instead of the terminal")
	flags.StringVar(&f.signing.Identity, "key-identity", "", "age identity file, for a key that is encrypted for recipients")
	flags.BoolVar(&f.offline, "offline", false, "do not ask the nodes what they start")
	flags.BoolVar(&f.force, "force", false, "revoke although a node would have nothing left to start")
	f.reach.Register(cmd, false)
	return cmd
}

func revoke(cmd *cobra.Command, world outside, f revokeFlags, images []string) error {
	w := cmd.OutOrStdout()
	fresh, systems, err := imagesOf(images)
	if err != nil {
		return err
	}
	if err := askNodes(cmd, world, f, systems); err != nil {
		return err
	}
	f.signing.Certificate = filepath.Join(f.keys, "KEK.crt")
	f.signing.Key = filepath.Join(f.keys, "KEK.key")
	if _, err := os.Stat(f.signing.Key + ".age"); err == nil {
		f.signing.Key += ".age"
	}
	kek, err := f.signing.Open()
	if err != nil {
		return err
	}
	revoked, err := listed(f.out, kek)
	if err != nil {
		return err
	}
	for i, name := range images {
		for _, h := range fresh[i] {
			fmt.Fprintf(w, "%s: revoked %x\n", name, h)
			if !slices.Contains(revoked, h) {
				revoked = append(revoked, h)
			}
		}
	}
	v, err := kek.Revoke(revoked, world.now())
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.out, v.Auth, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s holds %d images. Lay it beside cluster.yaml, build, and push.\n", f.out, len(revoked))
	return nil
}

// listed are the hashes that a list has already.
func listed(name string, kek *secureboot.Signer) ([]authenticode.Hash, error) {
	data, err := ask.Small(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := secureboot.CheckWrite(data, "dbx", kek.Certificate)
	if err != nil {
		return nil, fmt.Errorf("%s exists and was not made with this key: %w; name another file with -o", name, err)
	}
	return siglist.Hashes(list)
}

// askNodes refuses a revocation that would leave a node nothing to start.
func askNodes(cmd *cobra.Command, world outside, f revokeFlags, systems []revocation.System) error {
	dir := filepath.Dir(f.out)
	if _, err := os.Stat(filepath.Join(dir, "cluster.yaml")); f.offline || errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(cmd.ErrOrStderr(), "no node was asked what it starts: each looks at its own slots before its firmware gets the list")
		return nil
	}
	answers, err := world.starts(cmd, f.reach, dir)
	if err != nil {
		return fmt.Errorf("ask the nodes of %s what they start: %w; or give --offline", dir, err)
	}
	var bricked []string
	for _, x := range revocation.Judge(systems, answers) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", x.Node, x.Text)
		if x.Bricks {
			bricked = append(bricked, x.Node)
		}
	}
	if len(bricked) > 0 && !f.force {
		return fmt.Errorf("%s would have nothing left to start: push a newer configuration first, until both slots have one, or give --force; nothing was revoked", strings.Join(bricked, ", "))
	}
	return nil
}

// starts asks the nodes by their API.
func starts(cmd *cobra.Command, f reach.Flags, dir string) ([]revocation.Answer, error) {
	c, err := f.Open(cmd, dir, nodeapi.Reader)
	if err != nil {
		return nil, err
	}
	var out []revocation.Answer
	for _, a := range reach.Each(cmd.Context(), c, func(ctx context.Context, n facts.Node) (s nodeapi.Status, err error) {
		data, err := c.Client.Read(ctx, n.Name, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		return s, err
	}) {
		out = append(out, revocation.Answer{Node: a.Node.Name, Status: a.Value, Err: a.Err})
	}
	return out, cmd.Context().Err()
}

// imagesOf are the hashes of each image's kernels, and what all of them start.
func imagesOf(names []string) (hashes [][]authenticode.Hash, systems []revocation.System, err error) {
	for _, name := range names {
		h, s, err := imageOf(name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		hashes, systems = append(hashes, h), append(systems, s...)
	}
	return hashes, systems, nil
}

// imageOf looks at a disk image, or at one kernel.
func imageOf(name string) ([]authenticode.Hash, []revocation.System, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if strings.HasSuffix(strings.ToLower(name), ".efi") {
		h, err := authenticode.HashOf(file, st.Size())
		if err != nil {
			return nil, nil, err
		}
		info, err := uki.Inspect(file)
		if err != nil {
			return []authenticode.Hash{h}, nil, nil // A program that starts no system of ours.
		}
		return []authenticode.Hash{h}, []revocation.System{systemOf(*info)}, nil
	}
	info, err := image.Inspect(file, st.Size())
	if err != nil {
		return nil, nil, err
	}
	var systems []revocation.System
	for _, u := range info.UKIs {
		systems = append(systems, systemOf(u.Info))
	}
	hashes, err := info.KernelHashes(file)
	return hashes, systems, err
}

func systemOf(i uki.Info) (out revocation.System) {
	out.Root, _ = uki.Param(i.Cmdline, "roothash")
	out.Cluster, _ = uki.Param(i.Cmdline, "spore.clusterhash")
	return out
}
