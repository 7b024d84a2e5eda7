//! Starts the real server with a listener of each wire for a test and takes it down again.
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A private server on loopback with memory durability; killed when dropped.
pub struct Server {
    child: Child,
    folder: PathBuf,
    options: Vec<String>,
    pub line_address: String,
    pub framed_address: String,
}

impl Server {
    pub fn start() -> Server {
        Server::with(&[], None)
    }

    /// `token` is the one client token, if any.
    pub fn with(options: &[&str], token: Option<&str>) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ticketing-framed-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the server");
        let mut options: Vec<String> = options.iter().map(|option| option.to_string()).collect();
        if let Some(token) = token {
            let path = folder.join("tokens");
            fs::write(&path, format!("{token}\n")).expect("the token file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            options.extend(["--token-file".into(), path.to_str().expect("a path").into()]);
        }
        let (child, addresses) = Server::run(&folder, &options, ["127.0.0.1:0", "127.0.0.1:0"]);
        let [line_address, framed_address] = addresses;
        Server { child, folder, options, line_address, framed_address }
    }

    fn run(folder: &PathBuf, options: &[String], listen: [&str; 2]) -> (Child, [String; 2]) {
        let program = std::env::var_os("TICKETING_PROGRAM").expect("TICKETING_PROGRAM is not set");
        let log = folder.join("log");
        let mut child = Command::new(program)
            .args(["serve", "--listen", listen[0], "--listen", &format!("{},wire=3", listen[1])])
            .args(["--durability", "memory", "--ready-fd", "1", "--data"])
            .arg(folder.join("data"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).expect("its log"))
            .spawn()
            .expect("the server does not start");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut ready).expect("the ready line");
        let addresses: Vec<String> =
            ready.split("\"address\":\"").skip(1).filter_map(|rest| rest.split('"').next()).map(String::from).collect();
        let addresses = addresses.try_into().unwrap_or_else(|_| {
            panic!("no two addresses in {ready:?}: {}", fs::read_to_string(&log).unwrap_or_default())
        });
        (child, addresses)
    }

    /// Kills it, so that nothing is kept, and starts another on the same addresses.
    pub fn restart(&mut self) {
        self.kill();
        let (child, addresses) = Server::run(&self.folder, &self.options, [&self.line_address, &self.framed_address]);
        self.child = child;
        assert_eq!(addresses, [self.line_address.clone(), self.framed_address.clone()]);
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
