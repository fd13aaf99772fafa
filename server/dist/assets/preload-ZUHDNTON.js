"use strict";(()=>{try{let e=localStorage.getItem("greenroom.theme");(e==="light"||e==="dark")&&(document.documentElement.dataset.theme=e)}catch{}})();
