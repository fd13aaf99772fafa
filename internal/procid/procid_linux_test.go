package procid

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// idOf returns the identity of a process that runs.
func idOf(t *testing.T, pid int) string {
	t.Helper()
	began, err := beginning(pid)
	if err != nil {
		t.Fatal(err)
	}
	place, _, ok := cut(Own())
	if !ok {
		t.Fatalf("the identity of this process is %q", Own())
	}
	return place + " " + strconv.Itoa(pid) + "/" + began
}

func TestAProcessHasEndedOnceItIsKilled(t *testing.T) {
	if Ended(Own()) || idOf(t, os.Getpid()) != Own() {
		t.Errorf("this process, %q, is taken for another one, or for ended", Own())
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := idOf(t, cmd.Process.Pid)
	if Ended(id) {
		t.Error("it runs, and is taken for ended")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !Ended(id) {
		t.Error("it was killed, and is not taken for ended")
	}
}

func TestANumberThatAnotherProcessHasIsNoLife(t *testing.T) {
	if id := idOf(t, os.Getpid()) + "0"; !Ended(id) { // one that had this number, and has begun at another time
		t.Errorf("%q is not taken for ended", id)
	}
}

func TestNothingIsSaidOfOtherPlaces(t *testing.T) {
	place, process, _ := cut(Own())
	gone := strings.TrimRight(process, "0123456789") + "1" // of this number, at another time
	if !Ended(place + " " + gone) {
		t.Fatalf("%q is not taken for ended here", gone)
	}
	for _, id := range []string{"", " ", "x", "another-boot " + gone, place + "0 " + gone, place + " x", place + " -1/1", place + " 0/1", gone} {
		if Ended(id) {
			t.Errorf("%q is taken for ended", id)
		}
	}
}
