package check

// Quorum warns about an even number of voters: with one less as many may fail.
func (k *Checker) Quorum(p Place, n int, what, whose string) {
	if n == 0 || n%2 == 1 {
		return
	}
	fail := "fail"
	if n == 2 {
		fail = "fails"
	}
	k.Warningf(p, "%d %s: %s quorum is %d and lost as soon as %d %s, as with %d; use %d or %d", n, what, whose, n/2+1, n/2, fail, n-1, n-1, n+1)
}
