// Package chance gives tests the seed of what they choose by chance. It is a new one in each run, so that runs find
// what the one before did not; each test that uses it prints it, and SPORE_SEED repeats it.
package chance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
)

// Variable is the name of the environment variable that repeats a run.
const Variable = "SPORE_SEED"

// T is what a test has.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// ofRun is the one seed of a run, so that one variable repeats all tests of it. It has 32 bits, to be typed again.
var ofRun = sync.OnceValues(func() (uint64, error) { return read(os.Getenv(Variable), rand.Uint32) })

// Seed is the seed of this run. The test prints it.
func Seed(t T) uint64 {
	t.Helper()
	seed, err := ofRun()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Logf("%s=%d repeats this run", Variable, seed)
	return seed
}

func read(text string, random func() uint32) (uint64, error) {
	if text == "" {
		return uint64(random()), nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q: write a number, as a run printed it: %w", Variable, text, err)
	}
	return seed, nil
}
