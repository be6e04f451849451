// Command hello is the one program of the end-to-end tests' image: a server that says its name, and what a test wants to
// do inside a pod. The image holds nothing else, no shell either.
package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// requestLimit is how long one request may take.
const requestLimit = 5 * time.Second

const usage = `hello                        serve on port 8080
hello fetch URL              print what a GET of URL gives
hello watch URL              fetch for ever, one line each
hello lookup NAME            print the addresses of NAME
hello write FILE TEXT        write a file
hello cat FILE [ROOT]        print a file; its links are below ROOT
hello fill FILE BYTES        write random bytes to a new file, and print their SHA-256 when they are synced
hello sum FILE               print the SHA-256 of a file
hello append FILE            append numbered lines for ever, and print each when it is synced
hello find DIR HEX…          print which of the byte strings HEX are in files below DIR
hello node ROOT PATH…        print what runs on the node, whose root is ROOT, and what its files are, as JSON`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return serve()
	}
	switch name, rest := args[0], args[1:]; {
	case name == "fetch" && len(rest) == 1:
		body, err := fetch(rest[0])
		fmt.Print(body)
		return err
	case name == "watch" && len(rest) == 1:
		return watch(rest[0])
	case name == "lookup" && len(rest) == 1:
		addrs, err := net.LookupHost(rest[0])
		fmt.Println(strings.Join(addrs, " "))
		return err
	case name == "write" && len(rest) == 2:
		return os.WriteFile(rest[0], []byte(rest[1]), 0o644)
	case name == "cat" && (len(rest) == 1 || len(rest) == 2):
		path := rest[0]
		if to, err := os.Readlink(path); err == nil && filepath.IsAbs(to) && len(rest) == 2 {
			path = rest[1] + to
		}
		data, err := os.ReadFile(path)
		os.Stdout.Write(data)
		return err
	case name == "fill" && len(rest) == 2:
		return fill(rest[0], rest[1])
	case name == "sum" && len(rest) == 1:
		return sum(rest[0])
	case name == "append" && len(rest) == 1:
		return appendLines(rest[0])
	case name == "find" && len(rest) > 1:
		return find(rest[0], rest[1:])
	case name == "node" && len(rest) > 0:
		return json.NewEncoder(os.Stdout).Encode(look(rest[0], rest[1:]))
	}
	return errors.New("wrong usage\n" + usage)
}

func serve() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	s := http.Server{Addr: ":8080", ReadHeaderTimeout: requestLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path, "from", r.RemoteAddr)
		fmt.Fprintln(w, "hello from", name)
	})}
	fmt.Println("serving as", name)
	return s.ListenAndServe()
}

func fetch(url string) (string, error) {
	c := http.Client{Timeout: requestLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = errors.New(r.Status)
	}
	return string(body), err
}

func watch(url string) error {
	for {
		if _, err := fetch(url); err != nil {
			fmt.Println("fail:", err)
		} else {
			fmt.Println("ok")
		}
		time.Sleep(time.Second)
	}
}

func fill(path, size string) error {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, h), rand.Reader, n); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), syncDir(filepath.Dir(path))); err != nil {
		return err
	}
	fmt.Printf("%x\n", h.Sum(nil))
	return nil
}

func sum(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	fmt.Printf("%x\n", h.Sum(nil))
	return nil
}

func appendLines(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syncDir(filepath.Dir(path)); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if _, err := fmt.Fprintln(f, i); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// syncDir keeps the names of new files.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// find takes its words in hexadecimal, so that asking for one does not write it into a log of requests.
func find(dir string, words []string) error {
	var want [][]byte
	for _, w := range words {
		word, err := hex.DecodeString(w)
		if err != nil {
			return err
		}
		want = append(want, word)
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went away in the meantime
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for i, word := range want {
			if bytes.Contains(data, word) {
				fmt.Println(words[i], path)
			}
		}
		return err
	})
}

// node is cis.Node of the tests.
type node struct {
	Arguments map[string][]string
	Configs   map[string]json.RawMessage
	Files     map[string]file
	Memory    map[string]memory
}

type file struct{ Mode, Owner string }

// memory is the proportional set size of a program's processes in kB, and how much of it is no file's.
type memory struct{ All, Anonymous int }

// look needs the node's process namespace.
func look(root string, paths []string) node {
	out := node{map[string][]string{}, map[string]json.RawMessage{}, map[string]file{}, map[string]memory{}}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range lines {
		data, err := os.ReadFile(p)
		words := strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
		if err == nil && words[0] != "" {
			name := filepath.Base(words[0])
			out.Arguments[name] = words[1:]
			out.Memory[name] = out.Memory[name].with(filepath.Dir(p))
		}
	}
	users, groups := names(root+"/etc/passwd"), names(root+"/etc/group")
	for _, path := range paths {
		info, err := os.Stat(root + path)
		if err != nil {
			continue // the test says which it misses
		}
		st := info.Sys().(*syscall.Stat_t)
		out.Files[path] = file{fmt.Sprintf("%o", info.Mode().Perm()), users[st.Uid] + ":" + groups[st.Gid]}
		if data, err := os.ReadFile(root + path); err == nil && json.Valid(data) {
			out.Configs[path] = data
		}
	}
	return out
}

// with adds a process, whose folder of proc_pid_smaps(5) is dir; one that has ended has nothing.
func (m memory) with(dir string) memory {
	data, _ := os.ReadFile(dir + "/smaps_rollup")
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		switch kb, _ := strconv.Atoi(f[1]); f[0] {
		case "Pss:":
			m.All += kb
		case "Pss_Anon:":
			m.Anonymous += kb
		}
	}
	return m
}

// names reads passwd(5) or group(5).
func names(path string) map[uint32]string {
	out := map[uint32]string{}
	data, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(data), "\n") {
		if f := strings.Split(line, ":"); len(f) > 2 {
			if id, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				out[uint32(id)] = f[0]
			}
		}
	}
	return out
}
