package api

import "time"

// maxKnown bounds how many keys an allowance remembers.
const maxKnown = 8192

// allowance is how often each of many may do something: burst times at once, and once more after every interval.
type allowance[K comparable] struct {
	burst float64
	every time.Duration
	left  map[K]purse
}

// purse is what one had left at a time.
type purse struct {
	count float64
	at    time.Time
}

// take tells whether it may be done once more, and counts it.
func (a *allowance[K]) take(key K, now time.Time) bool {
	if a.left == nil {
		a.left = map[K]purse{}
	}
	p, known := a.left[key]
	if !known {
		if len(a.left) >= maxKnown {
			a.forget(now)
		}
		p = purse{a.burst, now}
	}
	p = purse{a.at(p, now), now}
	may := p.count >= 1
	if may {
		p.count--
	}
	a.left[key] = p
	return may
}

// at is what there is of a purse by now.
func (a *allowance[K]) at(p purse, now time.Time) float64 {
	return min(a.burst, p.count+float64(now.Sub(p.at))/float64(a.every))
}

// forget makes room: who has all that there is need not be remembered; where all have taken some, half of them start
// anew.
func (a *allowance[K]) forget(now time.Time) {
	for key, p := range a.left {
		if a.at(p, now) >= a.burst {
			delete(a.left, key)
		}
	}
	for key := range a.left {
		if len(a.left) <= maxKnown/2 {
			return
		}
		delete(a.left, key)
	}
}
