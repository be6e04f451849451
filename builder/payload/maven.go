package payload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"spore/builder/stamp"
	"spore/builder/store"
)

// Names in the folder of a payload that is made of jars.
const (
	// PomFile makes a payload one of jars: it lists them, or what leads to them, for Maven.
	PomFile = "pom.xml"
	// SumFile pins every jar: GROUP:NAME:VERSION[:CLASSIFIER] SIZE sha256:HEX.
	SumFile = "pom.sum"
)

// sumsHint says how SumFile is written.
const sumsHint = "UPDATE=1 go test -tags integration -run Jars ./test/payloads writes " + SumFile + " again; review the changes"

// buildJars lays out a payload of jars: those that SumFile pins, and the files that payload.yaml lists beside them.
//
// Which jars there are is Maven's to find out, from pom.xml and with the machine's own settings. Which bytes go into an image
// SumFile says alone: nothing is taken that it does not name by its hash, and a jar too few or too many is an error.
// Jars are kept in the store under their hashes, and that pom.xml leads to these very jars is kept as well, so that Maven
// runs once for each content of the two files.
func buildJars(ctx context.Context, st *store.Store, dir string, o Options) ([]Program, error) {
	root := os.DirFS(dir)
	pom, pinned, direct, err := readPins(root)
	if err != nil {
		return nil, err
	}
	d, err := describeJars(root, direct)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", DescriptionFile, err)
	}
	name := filepath.Base(dir)
	cached, err := haveJars(st, pom, pinned)
	if err == nil && !cached && !o.Plan {
		err = fetchJars(ctx, st, dir, pom, pinned, o)
	}
	if err != nil {
		return nil, err
	}
	files, err := listFiles(dir, o.Hashes, map[string]bool{}, ".")
	if err != nil {
		return nil, err
	}
	sources := Sources{name, listHash(files)}
	out := make([]Program, 0, len(pinned)+len(d.Files))
	for _, j := range pinned {
		key, err := store.ParseKey(j.sha256)
		if err != nil {
			return nil, err
		}
		artifact := j.Artifact
		out = append(out, Program{
			Name: name + "/" + j.File(), Payload: name, Sources: sources, Version: j.Version, Artifact: &artifact, Mode: 0o644,
			Target: path.Join(d.Jars, j.File()), Key: key, Path: st.Path(key), Size: j.size, Sum: &Sum{j.size, j.sha256}, Cached: cached,
		})
	}
	for _, row := range d.Files {
		p, err := keepFile(st, root, row)
		if err != nil {
			return nil, err
		}
		p.Name, p.Payload, p.Version, p.Sources = name+"/"+row.From, name, d.Version, sources
		out = append(out, p)
	}
	return out, nil
}

// readPins reads pom.xml and the jars that SumFile pins, and checks them against each other; direct are those that pom.xml
// names itself.
func readPins(root fs.FS) (pom []byte, pinned []jar, direct []Artifact, err error) {
	sums, err := fs.ReadFile(root, SumFile)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("its jars are pinned nowhere; %s: %w", sumsHint, err)
	}
	if pinned, err = parseSums(sums); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", SumFile, err)
	}
	if pom, err = fs.ReadFile(root, PomFile); err != nil {
		return nil, nil, nil, err
	}
	direct, err = checkPom(pom, pinned)
	return pom, pinned, direct, err
}

// jarsKey names what the store keeps when pom.xml is known to lead to the pinned jars.
func jarsKey(pom []byte, pinned []jar) store.Key {
	return store.KeyOf("maven jars 1", string(pom), string(formatSums(pinned)))
}

// haveJars reports whether the pinned jars are in the store, and pom.xml is known to lead to them.
func haveJars(st *store.Store, pom []byte, pinned []jar) (bool, error) {
	if !st.Has(jarsKey(pom, pinned)) {
		return false, nil
	}
	return inStore(st, pinned)
}

func inStore(st *store.Store, pinned []jar) (bool, error) {
	for _, j := range pinned {
		key, err := store.ParseKey(j.sha256)
		if err != nil || !st.Has(key) {
			return false, err
		}
	}
	return true, nil
}

// TrustJars notes that pom.xml of the payload in dir leads to the jars that SumFile pins, where the store has all of them: they
// came from a machine where Maven said so, and it is not asked again.
func TrustJars(st *store.Store, dir string) error {
	pom, pinned, _, err := readPins(os.DirFS(dir))
	if err != nil {
		return fmt.Errorf("payload %s: %w", filepath.Base(dir), err)
	}
	if all, err := inStore(st, pinned); err != nil || !all {
		return err
	}
	return st.Put(jarsKey(pom, pinned), func(*os.File) error { return nil })
}

// fetchJars has Maven put the pinned jars into the store.
func fetchJars(ctx context.Context, st *store.Store, dir string, pom []byte, pinned []jar, o Options) error {
	plugin, err := readPlugin(dir)
	if err != nil {
		return err
	}
	m := startMeter(filepath.Base(dir), o.Report)
	defer m.stop()
	m.say("Maven looks for its jars")
	err = withJars(ctx, st.TempDir(), pom, plugin, o, func(found []foundJar) error {
		list := make([]jar, len(found))
		for i, f := range found {
			list[i] = f.jar
		}
		if err := compareJars(pinned, list); err != nil {
			return fmt.Errorf("%w\nif that is meant: %s", err, sumsHint)
		}
		for _, f := range found {
			if err := f.keep(st); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return st.Put(jarsKey(pom, pinned), func(*os.File) error { return nil })
}

// Sums makes the text of SumFile for the payload in dir, from what pom.xml leads to now. Whoever commits it has looked at
// what changed: it is what later builds trust.
func Sums(ctx context.Context, dir string, o Options) ([]byte, error) {
	pom, err := os.ReadFile(filepath.Join(dir, PomFile))
	if err != nil {
		return nil, err
	}
	if _, err := checkPom(pom, nil); err != nil {
		return nil, err
	}
	plugin, err := readPlugin(dir)
	if err != nil {
		return nil, err
	}
	var out []byte
	err = withJars(ctx, "", pom, plugin, o, func(found []foundJar) error {
		list := make([]jar, len(found))
		for i, f := range found {
			list[i] = f.jar
		}
		out = formatSums(list)
		_, err := parseSums(out)
		return err
	})
	return out, err
}

// readPlugin reads PluginFile.
func readPlugin(dir string) ([]pluginFile, error) {
	text, err := os.ReadFile(filepath.Join(dir, PluginFile))
	if err != nil {
		return nil, fmt.Errorf("the plugin of Maven's that copies its jars is pinned nowhere; %s: %w", pluginHint, err)
	}
	list, err := parsePlugin(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PluginFile, err)
	}
	return list, nil
}

// foundJar is a jar that Maven brought.
type foundJar struct {
	jar
	path string
}

// keep puts the jar into the store under its hash, which is taken again of what is written.
func (f foundJar) keep(st *store.Store) error {
	key, err := store.ParseKey(f.sha256)
	if err != nil || st.Has(key) {
		return err
	}
	return st.Put(key, func(w *os.File) error {
		in, err := os.Open(f.path)
		if err != nil {
			return err
		}
		defer in.Close()
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, h), in); err != nil {
			return err
		}
		if hex.EncodeToString(h.Sum(nil)) != f.sha256 {
			return fmt.Errorf("%s changed while it was read", f.path)
		}
		return nil
	})
}

// withJars runs Maven on a copy of pom.xml below tmp, so that nothing is written beside the pins, and hands over what it
// brought. The folder is gone afterwards.
func withJars(ctx context.Context, tmp string, pom []byte, pinned []pluginFile, o Options, use func([]foundJar) error) error {
	if o.Maven == "" {
		o.Maven = defaultMaven
	}
	plugin, err := pluginOf(pom)
	if err != nil {
		return err
	}
	// With its version, so that it is no other one whatever the machine's settings say.
	copyJars := plugin.String() + ":" + copyGoal
	dir, err := os.MkdirTemp(tmp, "maven-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, PomFile), pom, 0o600); err != nil {
		return err
	}
	if err := checkPlugin(ctx, dir, plugin, pinned, o); err != nil {
		return err
	}
	out := filepath.Join(dir, "jars")
	cmd := exec.CommandContext(ctx, o.Maven, "--batch-mode", "--quiet", "--no-transfer-progress", "--file", PomFile,
		"-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true", "-DoutputDirectory="+out, copyJars)
	cmd.Dir, cmd.Env = dir, o.Env
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err = cmd.Run()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return noMaven(o.Maven, err)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", o.Maven, copyJars, err, tail(log.Bytes()))
	}
	found, err := findJars(out)
	if err != nil {
		return err
	}
	return use(found)
}

// defaultMaven is Maven's program.
const defaultMaven = "mvn"

func noMaven(program string, err error) error {
	return fmt.Errorf("its jars come through Maven, and there is no %s on this machine: install Maven (on Debian: apt install maven): %w", program, err)
}

// findJars lists a folder in the form of a Maven repository.
func findJars(dir string) ([]foundJar, error) {
	root := os.DirFS(dir)
	var out []foundJar
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		// Two files are Maven's own notes about what it copied.
		if err != nil || d.IsDir() || d.Name() == "maven-metadata-local.xml" || d.Name() == "_remote.repositories" {
			return err
		}
		a, err := artifactOf(p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := stamp.SHA256(filepath.Join(dir, filepath.FromSlash(p)))
		if err != nil {
			return err
		}
		out = append(out, foundJar{jar{a, info.Size(), sum}, filepath.Join(dir, filepath.FromSlash(p))})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the jars that Maven copied: %w", err)
	}
	return out, nil
}

// keepFile puts a file of the payload's folder into the store as it is.
func keepFile(st *store.Store, root fs.FS, row fileRow) (Program, error) {
	info, err := fs.Stat(root, row.From)
	if err != nil {
		return Program{}, err
	}
	data, err := fs.ReadFile(root, row.From)
	if err != nil {
		return Program{}, err
	}
	sum := sha256.Sum256(data)
	key := store.Key(sum)
	p := Program{Target: row.Path, Links: row.Links, Mode: 0o644, Key: key, Path: st.Path(key), Size: int64(len(data)), Cached: true}
	// Only the execute bit is taken from the host: a umask must not reach an image.
	if info.Mode()&0o100 != 0 {
		p.Mode = 0o755
	}
	if st.Has(key) {
		return p, nil
	}
	return p, st.Put(key, func(w *os.File) error {
		_, err := w.Write(data)
		return err
	})
}
