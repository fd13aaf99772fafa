package server

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// notOnPostgres are the tests that are not run again on PostgreSQL, and why.
var notOnPostgres = map[string]string{
	"TestServerOnPostgres":                   "runs the others",
	"TestOneSchemaHasOneServer":              "is about PostgreSQL wherever it runs",
	"TestANodePassesOnWhatClientsSend":       "likewise",
	"TestARequestWaitsForTheNextOwner":       "likewise",
	"TestAFormerOwnerAnswersNobody":          "likewise",
	"TestNodesMustKnowTheSameSecret":         "likewise",
	"TestNodesThatCannotBe":                  "likewise",
	"TestAClientIsTheSameOnTheOtherNode":     "has no store",
	"TestPasswordOfTheStoreIsShownNowhere":   "likewise",
	"TestTheGuidesAreRuns":                   "starts its own servers, some with PostgreSQL",
	"TestOneDirectoryHasOneServer":           "is about the directory of a SQLite store",
	"TestBackupOfARunningServerIsRestored":   "copies a SQLite store",
	"TestBackupSaysWhatPostgreSQLDoes":       "has stores of its own",
	"TestCostOfAPatchGrowsWithItsOperations": "has no store",
	"TestAddressesOfStores":                  "has no store",
	"TestGeneratedFilesAreFresh":             "has no store",
	"TestExamplesAreOfTheirSchemas":          "has no store",
}

// longOnPostgres is run on PostgreSQL in the long form only: most of its thousands of requests reach no store.
const longOnPostgres = "TestNoRequestIsOurFailure"

// What clients see is the same whatever the store: all tests are run on both.
func TestServerOnPostgres(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.list=^Test").Output()
	if err != nil {
		t.Fatal(err)
	}
	there := strings.Fields(string(out))
	for name := range notOnPostgres {
		if !slices.Contains(there, name) {
			t.Errorf("there is no test %s", name)
		}
	}
	long := soaktest.Rounds(t, 1, 2) > 1
	pgtest.Again(t, slices.DeleteFunc(there, func(name string) bool {
		return notOnPostgres[name] != "" || name == longOnPostgres && !long
	})...)
}

func TestOneSchemaHasOneServer(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	cfg := Config{Store: address, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	if _, err := New(t.Context(), cfg); !errors.Is(err, postgres.ErrInUse) {
		t.Errorf("a second server, after %v: %v, want %v", time.Since(began), err, postgres.ErrInUse)
	}
}

func TestPasswordOfTheStoreIsShownNowhere(t *testing.T) {
	t.Parallel()
	const secret = "s3cret/&"
	server := pgtest.Start(t)
	if err := server.AddUser("anna", secret); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Exec("ALTER DATABASE " + strings.Trim(u.Path, "/") + " OWNER TO anna"); err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("anna", secret)
	log := &logBuffer{}
	s, err := New(t.Context(), Config{
		Store: u.String(), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, s, log)
	r.post("room", `{"t":1}`)
	seen := []string{}
	look := func(path string) string {
		_, body := r.do("GET", path, "")
		seen = append(seen, body)
		return body
	}
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	token := r.dial311("sensor").Publish("e/room/telemetry", 1, false, `{"t":2}`)
	eventually(t, "a server without its database to say so", func() bool { return strings.Contains(look("/healthz"), "does not commit") })
	for _, path := range []string{"/v1/system", "/v1/actors", "/metrics"} {
		look(path)
	}
	if resp, body := r.do("GET", "/v1/entities/room/telemetry/t", ""); resp.StatusCode < http.StatusInternalServerError {
		t.Errorf("a history without a database: %s %s", resp.Status, body)
	} else {
		seen = append(seen, body)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	await(t, token) // the reading has waited, and is kept now
	if got := r.latest("room")["t"]; got != "2" {
		t.Errorf("the latest value is %s", got)
	}
	for _, text := range append(seen, log.String()) {
		if strings.Contains(text, "s3cret") {
			t.Errorf("it says the password: %s", text)
		}
	}
	if text := log.String(); !strings.Contains(text, "anna@") || !strings.Contains(text, "commit succeeded again") {
		t.Errorf("the log does not say where the store is, or that it came back:\n%s", text)
	}
}

func TestAddressesOfStores(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"data": "data", "./data": "./data", "/var/lib/x": "/var/lib/x", `C:\data`: `C:\data`, "sqlite:data": "data", "sqlite://data": "data",
		"sqlite:///var/lib/x": "/var/lib/x", "postgres://anna:s3cret@db/x": "postgres://anna@db/x", "postgresql://db/x?password=s3cret": "postgresql://db/x",
	} {
		if err := CheckStore(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if got := StoreName(address); got != want {
			t.Errorf("%s is called %s, want %s", address, got, want)
		}
	}
	for _, address := range []string{"", "sqlite:", "mysql://anna:s3cret@db/x", "POSTGRES://anna:s3cret@db/x", "s3cret://x"} {
		err := CheckStore(address)
		if !errors.Is(err, ErrStoreAddress) || strings.Contains(err.Error(), "anna") || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("%s: %v", address, err)
		}
		if strings.Contains(StoreName(address), "s3cret") {
			t.Errorf("%s is called %s", address, StoreName(address))
		}
	}
}
