package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWriterThatEndsEarlyIsNamed(t *testing.T) {
	t.Parallel()
	b := newBeginnings()
	b.of("types")
	acknowledged := b.of("patches")
	acknowledged()
	b.ended("patches", errors.New("killed"))
	b.ended("types", errors.New("503"))
	if err := b.await(t.Context()); err == nil || !strings.Contains(err.Error(), "types") || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
}

func TestWritersThatBeginBeforeOthersAreAddedAreAwaitedOnce(t *testing.T) {
	t.Parallel()
	b := newBeginnings()
	b.of("types")()
	b.of("readings")() // would close what is closed
	if err := b.await(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASlowMachineIsToldFromAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := func() (b *beginnings, acknowledged func(), result chan error) {
			b = newBeginnings()
			b.of("types")
			acknowledged, result = b.of("readings"), make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), verifyLongest)
			t.Cleanup(cancel)
			go func() { result <- b.await(ctx) }()
			return b, acknowledged, result
		}
		_, acknowledged, result := begin()
		acknowledged()
		began := time.Now()
		if err := <-result; err == nil || !strings.Contains(err.Error(), "nothing was acknowledged") || !strings.HasSuffix(err.Error(), "not once types") {
			t.Errorf("%v", err)
		}
		if d := time.Since(began); d > 3*verifyPatience {
			t.Errorf("it was noticed after %v", d)
		}
		_, acknowledged, result = begin()
		for {
			time.Sleep(verifyPatience / 2)
			select {
			case err := <-result:
				if err == nil || !strings.Contains(err.Error(), "too slow") || !strings.HasSuffix(err.Error(), "not one of types") {
					t.Errorf("%v", err)
				}
				return
			default:
				acknowledged()
			}
		}
	})
}

func TestWaitingEndsWhenNothingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var wait settling
		began := time.Now()
		for n := 0; time.Since(began) < 3*verifyPatience; n++ {
			if !wait.more(t.Context(), n) {
				t.Fatal("it ended while there was progress")
			}
		}
		last := time.Now()
		for wait.more(t.Context(), -1) {
		}
		if d := time.Since(last); d < verifyPatience || d > verifyPatience+2*verifyPoll {
			t.Errorf("it ended after %v", d)
		}
	})
}
