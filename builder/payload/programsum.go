package payload

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/builder/stamp"
	"spore/builder/store"
)

// ProgramSumFile pins, beside go.mod, what the programs of a payload compile to: PATH KEY SIZE sha256:HEX, with the path in
// the image and the Program's Key. A line with another key is of other pins, and says nothing. A build does without it:
// what it compiles is made of what go.sum pins. It is what a compiled program from another machine is held against.
const ProgramSumFile = "program.sum"

// Sum is what a file's bytes must be.
type Sum struct {
	// Size is in bytes.
	Size int64
	// SHA256 is in hexadecimal.
	SHA256 string
}

// maxProgram bounds a program, in bytes.
const maxProgram = 1 << 30

// programSum is one line of ProgramSumFile.
type programSum struct {
	key store.Key
	sum Sum
}

// readProgramSums reads the file of the payload in dir, by path; without one there are none.
func readProgramSums(dir string) (map[string]programSum, error) {
	data, err := os.ReadFile(filepath.Join(dir, ProgramSumFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sums, err := parseProgramSums(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ProgramSumFile, err)
	}
	return sums, nil
}

func parseProgramSums(data []byte) (map[string]programSum, error) {
	out := map[string]programSum{}
	last := ""
	for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		path, s, err := parseProgramSum(line)
		if err == nil && path <= last {
			err = errors.New("the lines are not sorted")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		out[path], last = s, path
	}
	return out, nil
}

func parseProgramSum(line string) (string, programSum, error) {
	f := strings.Fields(line)
	if len(f) != 4 || strings.Join(f, " ") != line {
		return "", programSum{}, errors.New("it is not PATH KEY SIZE sha256:HEX")
	}
	if err := checkPaths(f[0]); err != nil {
		return "", programSum{}, err
	}
	key, err := store.ParseKey(f[1])
	if err != nil {
		return "", programSum{}, err
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size <= 0 || size > maxProgram || strconv.FormatInt(size, 10) != f[2] {
		return "", programSum{}, fmt.Errorf("the size %s is not between 1 and %d bytes", f[2], maxProgram)
	}
	hash, ok := strings.CutPrefix(f[3], "sha256:")
	if _, err := store.ParseKey(hash); !ok || err != nil {
		return "", programSum{}, fmt.Errorf("%s is not sha256: and 64 hexadecimal digits", f[3])
	}
	return f[0], programSum{key, Sum{size, hash}}, nil
}

// ProgramSums makes the text of ProgramSumFile of the programs of one payload, as they lie in the store.
func ProgramSums(programs []Program) ([]byte, error) {
	programs = slices.SortedFunc(slices.Values(programs), func(a, b Program) int { return strings.Compare(a.Target, b.Target) })
	var out bytes.Buffer
	for _, p := range programs {
		hash, err := stamp.SHA256(p.Path)
		if err != nil {
			return nil, fmt.Errorf("sum of program %s: %w", p.Name, err)
		}
		fmt.Fprintf(&out, "%s %s %d sha256:%s\n", p.Target, p.Key, p.Size, hash)
	}
	return out.Bytes(), nil
}
